#include "comm/wire/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/secret.h"

namespace poseidon::comm {

namespace {

constexpr uint64_t kMaxSecretBytes = 64 * 1024;
constexpr size_t kJobAt = 16, kNonceAt = 32;

// Each direction has its own labels, so a proof that is sent back to its author proves nothing.
constexpr std::string_view kAcceptorLabel = "poseidon 2 acceptor";
constexpr std::string_view kInitiatorLabel = "poseidon 2 initiator";
constexpr std::string_view kAcceptorFrames = "poseidon 2 acceptor frames";
constexpr std::string_view kInitiatorFrames = "poseidon 2 initiator frames";

template <class Value>
void put(Introduction& out, size_t at, Value value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

template <class Value>
Value get(std::span<const std::byte> in, size_t at) {
  Value value{};
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

/// Encodes an introduction of `self`. A challenge has no called node: its `called` fields are 0, as
/// for the coordinator.
Introduction introduce(const PeerIdentity& self, NodeId called, bool secured, const Nonce& nonce) {
  Introduction out{};
  put(out, 0, self.role);
  put(out, 1, static_cast<uint8_t>(secured));
  put(out, 2, called.role);
  put(out, 4, self.rank);
  put(out, 8, self.view);
  put(out, 12, called.rank);
  put(out, kJobAt, self.job);
  std::copy(nonce.begin(), nonce.end(), out.begin() + kNonceAt);
  return out;
}

PeerIdentity identity_of(std::span<const std::byte> introduction) {
  return {.role = get<Role>(introduction, 0),
          .rank = get<int32_t>(introduction, 4),
          .view = get<uint32_t>(introduction, 8),
          .job = get<JobId>(introduction, kJobAt),
          .address = ""};
}

NodeId called_by(std::span<const std::byte> hello) {
  return {get<Role>(hello, 2), get<uint16_t>(hello, 12)};
}

std::string wrong_length(const char* what, size_t expected, size_t got) {
  return text("a ", what, " of ", got, " bytes, expected ", expected);
}

/// The fault of an introduction, or "".
std::string fault_of(std::span<const std::byte> introduction, bool secured) {
  const auto role = get<uint8_t>(introduction, 0);
  const auto says_secured = get<uint8_t>(introduction, 1);
  const auto called_role = get<uint8_t>(introduction, 2);
  const auto rank = get<int32_t>(introduction, 4);
  for (const uint8_t each : {role, called_role})
    if (each > static_cast<uint8_t>(Role::kServer)) return text("role ", int{each}, " is unknown");
  if (says_secured > 1) return text("expected a secret flag of 0 or 1, got ", int{says_secured});
  if (get<uint8_t>(introduction, 3) != 0 || get<uint16_t>(introduction, 14) != 0)
    return "expected 0 in the reserved fields of an introduction";
  if (rank < -1 || rank > UINT16_MAX)
    return text("expected a rank of -1 to ", UINT16_MAX, ", got ", rank);
  if (secured && says_secured == 0)
    return "one end has a secret and the other has none: use the same secret file on both";
  if (!secured && says_secured == 1)
    return "one end has no secret and the other has one: use the same secret file on both";
  return "";
}

Hmac hmac_of(const Secret& secret, std::string_view label, std::span<const std::byte> hello,
             std::span<const std::byte> answer) {
  std::vector<std::byte> said;
  for (std::span<const std::byte> piece : {as_bytes(label), hello, answer})
    said.insert(said.end(), piece.begin(), piece.end());
  return hmac_sha256(secret, said);
}

/// Returns the proof that this end knows the secret; no bytes if the cluster has no secret.
std::vector<std::byte> prove(const Secret& secret, std::string_view label,
                             std::span<const std::byte> hello, std::span<const std::byte> answer) {
  if (secret.empty()) return {};
  const Hmac proof = hmac_of(secret, label, hello, answer);
  return {proof.begin(), proof.end()};
}

std::optional<SessionKeys> keys_of(const Secret& secret, std::string_view sent,
                                   std::string_view received, std::span<const std::byte> hello,
                                   std::span<const std::byte> answer) {
  if (secret.empty()) return std::nullopt;
  return SessionKeys{.sent = hmac_of(secret, sent, hello, answer),
                     .received = hmac_of(secret, received, hello, answer)};
}

/// Each end reports this text to the other, so it must be true for both.
constexpr const char* kWrongSecret =
    "the two ends have different secrets: use the same secret file on both";

void warn_of_readers(const std::string& path, Log& log) {
  using std::filesystem::perms;
  std::error_code gone;  // ignored: read_file() reports the error
  const auto status = std::filesystem::status(path, gone);
  const perms others = status.permissions() & (perms::group_read | perms::others_read);
  if (std::filesystem::is_regular_file(status) && others != perms::none)
    log.warning(text(path,
                     ": users other than its owner can read this secret and join the cluster; "
                     "expected mode 600: chmod 600 ",
                     path));
}

/// Removes the white space at the end and checks the length. `name` stands for the source in
/// errors.
Secret checked_secret(Secret secret, const std::string& name) {
  const auto blank = [](std::byte byte) {
    return byte == std::byte{' '} || (byte >= std::byte{'\t'} && byte <= std::byte{'\r'});
  };
  while (!secret.empty() && blank(secret.back())) secret.pop_back();
  if (secret.size() < kMinSecretBytes)
    throw ConfigError(text(name, ": expected a secret of at least ", kMinSecretBytes,
                           " bytes, got ", secret.size(), "; make one: openssl rand -hex 32"));
  return secret;
}

}  // namespace

Secret read_secret(const std::string& path, Log& log) {
  warn_of_readers(path, log);
  Secret secret;
  read_file(path, kMaxSecretBytes, secret);
  return checked_secret(std::move(secret), path);
}

Secret read_secret_line(int file, const std::string& name) {
  Secret secret;
  std::byte next{};
  while (secret.size() < kMaxSecretBytes) {
    const ssize_t count = ::read(file, &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || next == std::byte{'\n'}) break;
    secret.push_back(next);
  }
  return checked_secret(std::move(secret), name);
}

Nonce make_nonce() {
  Nonce nonce;
  fill_with_random_bytes(nonce);
  return nonce;
}

Initiator::Initiator(Secret secret, const PeerIdentity& self, NodeId called, const Nonce& nonce)
    : secret_(std::move(secret)), hello_(introduce(self, called, !secret_.empty(), nonce)) {}

HandshakeStep Initiator::challenge(std::span<const std::byte> body) const {
  HandshakeStep step;
  if (body.size() < kIntroductionBytes) {
    step.error = wrong_length("challenge", kIntroductionBytes, body.size());
    return step;
  }
  const auto introduction = body.first(kIntroductionBytes);
  step.error = fault_of(introduction, !secret_.empty());
  if (!step.error.empty()) return step;
  const auto expected = prove(secret_, kAcceptorLabel, hello_, introduction);
  if (!equal_in_constant_time(body.subspan(kIntroductionBytes), expected)) {
    step.error = kWrongSecret;
    return step;
  }
  const PeerIdentity peer = identity_of(introduction);
  step.error = mismatch(identity_of(hello_), called_by(hello_), peer);
  if (!step.error.empty()) return step;
  step.reply = prove(secret_, kInitiatorLabel, hello_, introduction);
  step.peer = peer;
  step.keys = keys_of(secret_, kInitiatorFrames, kAcceptorFrames, hello_, introduction);
  return step;
}

Acceptor::Acceptor(Secret secret, const PeerIdentity& self, const Nonce& nonce)
    : secret_(std::move(secret)), introduction_(introduce(self, {}, !secret_.empty(), nonce)) {}

PeerIdentity Acceptor::caller() const { return identity_of(hello_); }

HandshakeStep Acceptor::hello(std::span<const std::byte> body) {
  HandshakeStep step;
  step.error = body.size() == kIntroductionBytes
                   ? fault_of(body, !secret_.empty())
                   : wrong_length("hello", kIntroductionBytes, body.size());
  if (step.error.empty())
    step.error = mismatch(identity_of(body), called_by(body), identity_of(introduction_));
  if (!step.error.empty()) return step;
  std::copy(body.begin(), body.end(), hello_.begin());
  step.reply.assign(introduction_.begin(), introduction_.end());
  const auto proof = prove(secret_, kAcceptorLabel, hello_, introduction_);
  step.reply.insert(step.reply.end(), proof.begin(), proof.end());
  return step;
}

HandshakeStep Acceptor::proof(std::span<const std::byte> body) const {
  HandshakeStep step;
  const auto expected = prove(secret_, kInitiatorLabel, hello_, introduction_);
  if (!equal_in_constant_time(body, expected)) {
    step.error = kWrongSecret;
    return step;
  }
  step.peer = identity_of(hello_);
  step.keys = keys_of(secret_, kAcceptorFrames, kInitiatorFrames, hello_, introduction_);
  return step;
}

}  // namespace poseidon::comm
