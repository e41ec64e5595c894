#include "comm/wire/handshake.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "core/secret.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using Bytes = std::vector<std::byte>;

Secret secret_of(std::string_view words) {
  const auto bytes = as_bytes(words);
  return {bytes.begin(), bytes.end()};
}

const Secret kSecret = secret_of("0123456789abcdef");
const PeerIdentity kWorker{.role = Role::kWorker, .rank = 3, .view = 9, .address = ""};
const PeerIdentity kServer{.role = Role::kServer, .rank = 1, .view = 9, .address = ""};

Initiator initiator(const Secret& secret = kSecret) {
  return {secret, kWorker, {Role::kServer, 1}, make_nonce()};
}
Acceptor acceptor(const Secret& secret = kSecret) { return {secret, kServer, make_nonce()}; }

bool is(const std::optional<PeerIdentity>& peer, const PeerIdentity& expected) {
  return peer && peer->role == expected.role && peer->rank == expected.rank &&
         peer->view == expected.view;
}

constexpr const char* kWrongSecret =
    "the two ends have different secrets: use the same secret file on both";

}  // namespace

TEST_CASE("both ends of a handshake learn the peer's identity") {
  for (const Secret& secret : {kSecret, Secret()}) {
    const Initiator worker = initiator(secret);
    Acceptor server = acceptor(secret);
    const HandshakeStep greeted = server.hello(worker.hello());
    CHECK(greeted.error == "");
    CHECK_FALSE(greeted.peer);  // no proof yet
    const HandshakeStep challenged = worker.challenge(greeted.reply);
    CHECK(challenged.error == "");
    CHECK(is(challenged.peer, kServer));
    CHECK(challenged.reply.size() == (secret.empty() ? 0 : 32));
    const HandshakeStep proved = server.proof(challenged.reply);
    CHECK(proved.error == "");
    CHECK(is(proved.peer, kWorker));
  }
}

TEST_CASE("both ends detect that their secrets differ") {
  const Initiator worker = initiator(secret_of("another secret!!"));
  Acceptor server = acceptor();
  const HandshakeStep greeted = server.hello(worker.hello());
  const HandshakeStep challenged = worker.challenge(greeted.reply);
  CHECK(challenged.error == kWrongSecret);
  CHECK(challenged.reply.empty());
  CHECK_FALSE(challenged.peer);
  CHECK(server.proof(Bytes(32)).error == kWrongSecret);
  CHECK(server.proof({}).error == kWrongSecret);
}

TEST_CASE("a secret on only one end is reported") {
  const Initiator without = initiator(Secret());
  Acceptor with = acceptor();
  CHECK(with.hello(without.hello()).error ==
        "one end has a secret and the other has none: use the same secret file on both");
  Acceptor open = acceptor(Secret());
  CHECK(open.hello(initiator().hello()).error ==
        "one end has no secret and the other has one: use the same secret file on both");
  // A peer that only claims to have a secret has no proof.
  Bytes hello(without.hello().begin(), without.hello().end());
  hello[1] = std::byte{1};
  CHECK(with.hello(hello).error == "");
  CHECK(with.proof({}).error == kWrongSecret);
}

TEST_CASE("an echoed hello or proof is not accepted as a proof") {
  // An attacker without the secret echoes the hello as its answer, and reflects the challenge's
  // proof.
  const Initiator worker = initiator();
  Bytes echo(worker.hello().begin(), worker.hello().end());
  echo.resize(echo.size() + 32);
  CHECK(worker.challenge(echo).error == kWrongSecret);

  Acceptor server = acceptor();
  const HandshakeStep greeted = server.hello(worker.hello());
  const Bytes reflected(greeted.reply.end() - 32, greeted.reply.end());
  CHECK(server.proof(reflected).error == kWrongSecret);
}

TEST_CASE("a proof is valid only for its pair of nonces") {
  const Initiator worker = initiator();
  Acceptor server = acceptor();
  const HandshakeStep heard = worker.challenge(server.hello(worker.hello()).reply);
  Acceptor later = acceptor();
  CHECK(later.hello(worker.hello()).error == "");
  CHECK(later.proof(heard.reply).error == kWrongSecret);
}

TEST_CASE("proofs cover role, rank, view, job, nonce and the called node") {
  const Initiator worker = initiator();
  for (size_t at : {0, 2, 4, 5, 8, 11, 12, 13, 16, 31, 32, 63}) {
    CAPTURE(at);
    // The hello is altered in transit. The server refuses at once, or its challenge does not match
    // the hello that was sent.
    Bytes hello(worker.hello().begin(), worker.hello().end());
    hello[at] ^= std::byte{1};
    Acceptor server = acceptor();
    const HandshakeStep greeted = server.hello(hello);
    if (greeted.error.empty()) CHECK(worker.challenge(greeted.reply).error == kWrongSecret);
    // The challenge is altered in transit.
    Acceptor honest = acceptor();
    Bytes challenge = honest.hello(worker.hello()).reply;
    const HandshakeStep good = worker.challenge(challenge);
    challenge[at] ^= std::byte{1};
    const HandshakeStep bad = worker.challenge(challenge);
    CHECK(bad.error != "");
    CHECK_FALSE(bad.peer);
    CHECK(is(honest.proof(good.reply).peer, kWorker));
  }
}

TEST_CASE("a node refuses a hello that calls another node") {
  const auto refusal_of = [](const PeerIdentity& caller, NodeId called,
                             const PeerIdentity& callee) {
    const Initiator from(kSecret, caller, called, make_nonce());
    Acceptor to(kSecret, callee, make_nonce());
    const std::string why = to.hello(from.hello()).error;
    CHECK(why == mismatch(caller, called, callee));
    return why;
  };
  const PeerIdentity joining{.role = Role::kWorker, .rank = -1, .view = 0, .address = ""};
  PeerIdentity coordinator{.role = Role::kCoordinator, .rank = 0, .view = 9, .address = ""};
  coordinator.job.fill(std::byte{3});
  const NodeId server{Role::kServer, 1};
  CHECK(refusal_of(kWorker, server, kServer) == "");
  CHECK(refusal_of(joining, {}, coordinator) == "");
  CHECK(refusal_of(joining, {}, kServer) == "the coordinator was called, this is server 1");
  CHECK(refusal_of(joining, {}, joining) ==
        "the coordinator was called, this is a worker without a rank");
  CHECK(refusal_of(kWorker, {Role::kServer, 2}, kServer) ==
        "server 2 was called, this is server 1");
  CHECK(refusal_of(joining, server, kServer) ==
        "a worker without a rank may connect only to the coordinator");
  CHECK(refusal_of(coordinator, server, kServer) == "a coordinator may not connect to a node");
  PeerIdentity other = kWorker;
  other.view = 999;
  CHECK(refusal_of(other, server, kServer) == "worker 3 has view 999, server 1 has view 9");
  other = kWorker;
  other.job = coordinator.job;
  CHECK(refusal_of(other, server, kServer) == "worker 3 belongs to another job than server 1");
}

TEST_CASE("a daemon rejects a member that answers a hello meant for the coordinator") {
  const PeerIdentity joining{.role = Role::kWorker, .rank = -1, .view = 0, .address = ""};
  const Initiator daemon(kSecret, joining, {}, make_nonce());
  const Initiator anybody(kSecret, kWorker, {Role::kServer, 1}, make_nonce());
  Bytes challenge = acceptor().hello(anybody.hello()).reply;
  challenge.resize(kIntroductionBytes);
  Bytes proved;
  for (const auto piece :
       {as_bytes("poseidon 2 acceptor"), daemon.hello(), std::span<const std::byte>(challenge)})
    proved.insert(proved.end(), piece.begin(), piece.end());
  const Hmac proof = hmac_sha256(kSecret, proved);
  challenge.insert(challenge.end(), proof.begin(), proof.end());
  const HandshakeStep step = daemon.challenge(challenge);
  CHECK(step.error == "the coordinator was called, this is server 1");
  CHECK(step.reply.empty());
  CHECK_FALSE(step.peer);
}

TEST_CASE("malformed handshake bodies are rejected with the expected values") {
  const Initiator worker = initiator();
  Acceptor server = acceptor();
  const auto with = [&](size_t at, int value) {
    Bytes hello(worker.hello().begin(), worker.hello().end());
    hello[at] = static_cast<std::byte>(value);
    return server.hello(hello).error;
  };
  CHECK(server.hello({}).error == "a hello of 0 bytes, expected 64");
  CHECK(server.hello(Bytes(65)).error == "a hello of 65 bytes, expected 64");
  CHECK(worker.challenge(Bytes(63)).error == "a challenge of 63 bytes, expected 64");
  CHECK(with(0, 3) == "role 3 is unknown");
  CHECK(with(2, 3) == "role 3 is unknown");
  CHECK(with(1, 2) == "expected a secret flag of 0 or 1, got 2");
  CHECK(with(3, 1) == "expected 0 in the reserved fields of an introduction");
  CHECK(with(14, 1) == "expected 0 in the reserved fields of an introduction");
  CHECK(with(6, 1) == "expected a rank of -1 to 65535, got 65539");
}

TEST_CASE("each nonce is new") { CHECK(make_nonce() != make_nonce()); }

TEST_CASE("read_secret() strips trailing line ends and rejects short secrets") {
  const std::string path = std::filesystem::temp_directory_path() / "poseidon_secret_test";
  SilentLog log;
  write_file(path, "0123456789abcdef\r\n\n");
  CHECK(read_secret(path, log) == kSecret);
  write_file(path, "password\n");
  CHECK_THROWS_WITH_AS(read_secret(path, log),
                       (path + ": expected a secret of at least 16 bytes, got 8; make one: openssl "
                               "rand -hex 32")
                           .c_str(),
                       ConfigError);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(read_secret(path, log), ConfigError);
}

TEST_CASE("read_secret_line() reads only the first line of a pipe and leaves the pipe open") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string lines = "0123456789abcdef \nmore", word = "password\n";
  REQUIRE(write(ends[1], lines.data(), lines.size()) == std::ssize(lines));
  CHECK(read_secret_line(ends[0], "standard input") == kSecret);
  char more[8] = {};
  CHECK(read(ends[0], more, sizeof more) == 4);
  CHECK(std::string(more) == "more");
  REQUIRE(write(ends[1], word.data(), word.size()) == std::ssize(word));
  CHECK_THROWS_WITH_AS(read_secret_line(ends[0], "standard input"),
                       "standard input: expected a secret of at least 16 bytes, got 8; make one: "
                       "openssl rand -hex 32",
                       ConfigError);
  close(ends[1]);
  CHECK_THROWS_AS(read_secret_line(ends[0], "standard input"), ConfigError);
  close(ends[0]);
}

TEST_CASE("security: a warning names a secret file that other users can read") {
  const std::string path = std::filesystem::temp_directory_path() / "poseidon_open_secret_test";
  write_file(path, "0123456789abcdef");
  WarningLog log;
  using std::filesystem::perms;
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
  CHECK(read_secret(path, log) == kSecret);
  CHECK(log.lines() == "");
  std::filesystem::permissions(path, perms::owner_read | perms::group_read);
  CHECK(read_secret(path, log) == kSecret);
  CHECK(log.lines() ==
        path +
            ": users other than its owner can read this secret and join the cluster; "
            "expected mode 600: chmod 600 " +
            path);
  std::filesystem::remove(path);
}
