#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "tests/comm/asio_node.h"
#include "tests/support/certificates.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// One authority with two nodes, and another authority with one node.
const Certificates& certificates() {
  static const Certificates* const kMade = [] {
    static Certificates made;
    made.make_authority("ours");
    made.make_node("server", "ours");
    made.make_node("worker", "ours");
    made.make_authority("theirs");
    made.make_node("stranger", "theirs");
    return &made;
  }();
  return *kMade;
}

AsioOptions options_of(Role role, const TlsFiles& tls) {
  AsioOptions options;
  options.self = {.role = role, .rank = 1, .view = 4, .address = ""};
  options.tls = tls;
  if (role == Role::kServer) options.listen = "127.0.0.1:0";
  return options;
}

const TlsFiles kNone;
TlsFiles server_files() { return certificates().files("server", "ours"); }
TlsFiles worker_files() { return certificates().files("worker", "ours"); }
TlsFiles stranger_files() { return certificates().files("stranger", "ours"); }

/// The messages of both ends when a worker is refused.
struct Refusal {
  std::string worker, server;
};
Refusal refusal(const TlsFiles& servers, const TlsFiles& workers) {
  const auto log = std::make_shared<WarningLog>();
  AsioOptions options = options_of(Role::kServer, servers);
  options.log = log;
  Node server(options), worker(options_of(Role::kWorker, workers));
  worker.connect(server.address());
  Refusal out;
  out.worker = worker.why_closed();
  for (int i = 0; i < 500 && log->lines().empty(); ++i) usleep(10000);
  out.server = log->lines();
  CHECK(server.events().opened.empty());
  CHECK(worker.events().opened.empty());
  return out;
}

bool says(const std::string& line, const std::string& part) {
  CAPTURE(line);
  CAPTURE(part);
  const bool found = line.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("tls: nodes of one authority exchange bodies of many sizes in both directions") {
  Node server(options_of(Role::kServer, server_files())),
      worker(options_of(Role::kWorker, worker_files()));
  const ConnectionId to_server = worker.connect(server.address());
  REQUIRE(worker.wait_open());
  REQUIRE(server.wait_open());
  const ConnectionId to_worker = server.events().opened[0].first;
  std::vector<Bytes> bodies;
  for (size_t size : {1, 64, 16 * 1024 - 64, 16 * 1024, 100'000, 256 * 1024})
    bodies.push_back(pattern(size, static_cast<int>(bodies.size())));
  for (const Bytes& body : bodies) {
    worker.send(to_server, header_of(FrameKind::kContribution), body, bulk_priority(0));
    server.send(to_worker, header_of(FrameKind::kSum), body, bulk_priority(0));
  }
  for (Node* node : {&server, &worker}) {
    REQUIRE(node->wait_frames(bodies.size()));
    for (size_t i = 0; i < bodies.size(); ++i) {
      const bool same = node->events().frames[i].body == bodies[i];
      CHECK(same);
    }
  }
}

TEST_CASE("tls: a secret can be required in addition") {
  AsioOptions servers = options_of(Role::kServer, server_files());
  AsioOptions workers = options_of(Role::kWorker, worker_files());
  servers.secret = Secret(24, std::byte{1});
  Node server(servers), without(workers);
  without.connect(server.address());
  says(without.why_closed(), "secret");
  workers.secret = servers.secret;
  Node with(workers);
  with.connect(server.address());
  CHECK(with.wait_open());
}

TEST_CASE("tls: either end rejects a certificate of another authority") {
  const Refusal worker = refusal(server_files(), stranger_files());
  says(worker.server,
       "this node rejects the peer's TLS certificate: another authority has signed it");
  says(worker.worker, "the peer rejects this node's TLS certificate");
  const Refusal server = refusal(stranger_files(), worker_files());
  says(server.worker,
       "this node rejects the peer's TLS certificate: another authority has signed it");
  says(server.server, "the peer rejects this node's TLS certificate");
}

TEST_CASE("tls: the message names another authority of the same name") {
  Certificates made;
  made.make_authority("cluster");
  made.make_node("server", "cluster");
  Certificates others;
  others.make_authority("cluster");
  others.make_node("worker", "cluster");
  const Refusal by_both =
      refusal(made.files("server", "cluster"), others.files("worker", "cluster"));
  says(by_both.worker, "another authority of the same name has signed it");
  says(by_both.server, "the peer rejects this node's TLS certificate");
  const TlsFiles knows_ours{.certificate = others.file("worker.pem"),
                            .key = others.file("worker.key"),
                            .authority = made.file("cluster.pem")};
  const Refusal by_server = refusal(made.files("server", "cluster"), knows_ours);
  says(by_server.server, "another authority of the same name has signed it");
  says(by_server.worker, "the peer rejects this node's TLS certificate");
}

TEST_CASE("tls: an expired or not yet valid certificate is refused with the reason") {
  Certificates made;
  made.make_authority("ours");
  made.make_node("server", "ours");
  made.make_node("old", "ours", "20200101000000Z", "20200201000000Z");
  made.make_node("new", "ours", "20900101000000Z", "20910101000000Z");
  const Refusal old = refusal(made.files("server", "ours"), made.files("old", "ours"));
  says(old.server, "this node rejects the peer's TLS certificate: it has expired; renew it");
  says(old.worker, "the peer reports that this node's TLS certificate has expired");
  const Refusal early = refusal(made.files("server", "ours"), made.files("new", "ours"));
  says(early.server, "it is not valid yet; compare the clocks of both machines");
  says(early.worker, "the peer rejects this node's TLS certificate");
}

TEST_CASE("tls: a peer without a certificate or without TLS 1.3 is refused") {
  const auto greet = [&](const std::string& words) {
    const auto log = std::make_shared<WarningLog>();
    AsioOptions options = options_of(Role::kServer, server_files());
    options.log = log;
    Node server(options);
    const std::string command = "openssl s_client -connect " + server.address() + " " + words +
                                " < /dev/null > /dev/null 2>&1";
    [[maybe_unused]] const int code = std::system(command.c_str());
    for (int i = 0; i < 500 && log->lines().empty(); ++i) usleep(10000);
    CHECK(server.events().opened.empty());
    return log->lines();
  };
  says(greet(""), "the peer has no TLS certificate");
  const TlsFiles files = worker_files();
  says(greet("-tls1_2 -cert " + files.certificate + " -key " + files.key),
       "the peer does not speak TLS 1.3");
}

TEST_CASE("tls: if only one end uses TLS, both ends report it") {
  const Refusal plain_worker = refusal(server_files(), kNone);
  says(plain_worker.server, "the peer does not speak TLS 1.3");
  says(plain_worker.worker, "a TLS alert: the peer uses TLS, this node does not");
  // Strangers that send arbitrary first bytes: no message of OpenSSL must appear in the log.
  for (const char first : {'\0', 'G', 'P'}) {
    const auto log = std::make_shared<WarningLog>();
    AsioOptions options = options_of(Role::kServer, server_files());
    options.log = log;
    Node server(options);
    Bytes noise(200, std::byte{'A'});
    noise[0] = static_cast<std::byte>(first);
    BareSocket(server.address()).send(noise);
    for (int i = 0; i < 500 && log->lines().empty(); ++i) usleep(10000);
    says(log->lines(), "the peer does not speak TLS 1.3");
  }
  const Refusal plain_server = refusal(kNone, worker_files());
  says(plain_server.server, "the peer uses TLS, this node does not");
  says(plain_server.worker, "the peer does not speak TLS 1.3");
}

TEST_CASE("tls: a closed connection is reported as closed by the peer") {
  Node server(options_of(Role::kServer, server_files()));
  {
    Node worker(options_of(Role::kWorker, worker_files()));
    worker.connect(server.address());
    REQUIRE(worker.wait_open());
    REQUIRE(server.wait_open());
  }
  CHECK(server.why_closed() == "connection closed by the peer");
}

TEST_CASE("tls: an unusable certificate, key or authority file is named") {
  const auto error_of = [](const TlsFiles& files) -> std::string {
    try {
      const AsioTransport transport(options_of(Role::kServer, files));
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  const Certificates& made = certificates();
  TlsFiles files = server_files();
  CHECK(error_of(files) == "");
  files.certificate = made.file("absent.pem");
  CHECK(error_of(files) ==
        "--tls-certificate " + files.certificate + ": cannot be opened: No such file or directory");
  files.certificate = made.file("fifo");
  REQUIRE(mkfifo(files.certificate.c_str(), 0600) == 0);
  CHECK(error_of(files) ==
        "--tls-certificate " + files.certificate + ": expected a file, got a FIFO");
  files = server_files();
  files.key = made.file("worker.key");
  CHECK(error_of(files) == "--tls-key " + files.key + ": expected the key of the certificate in " +
                               files.certificate + ", got another key");
  files.key = "";
  says(error_of(files), "TLS requires --tls-certificate, --tls-key and --tls-authority, got ");
  files = server_files();
  files.authority = made.file("server.key");
  says(error_of(files), "--tls-authority " + files.authority + ": expected a certificate in PEM");
  files = server_files();
  std::swap(files.certificate, files.key);
  says(error_of(files), "--tls-certificate " + files.certificate + ": expected a certificate in");
}

TEST_CASE("tls: a node may listen beyond loopback without a secret") {
  AsioOptions options = options_of(Role::kServer, server_files());
  options.listen = "0.0.0.0:0";
  CHECK(AsioTransport(options).address().starts_with("0.0.0.0:"));
}
