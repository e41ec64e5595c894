#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/transport.h"
#include "core/gmac.h"
#include "core/log.h"

/// How two ends of a connection prove to each other that they know the same secret, and who they
/// are. There is no I/O here: bodies of frames go in and come out. The format and what is proved:
/// docs/wire-format.md, docs/security.md.
namespace poseidon::comm {

/// The shared secret of a cluster. An empty one means that there is none and nothing is proved.
using Secret = std::vector<std::byte>;
inline constexpr size_t kLeastSecretBytes = 16;

/// A secret from a file: its bytes without the white space at its end. Warns of a file that others
/// may read. Throws ConfigError when it cannot be read or holds fewer than kLeastSecretBytes.
Secret read_secret(const std::string& path, Log& log);
/// The same of the first line of an open file, of which nothing further is read. `name` is what
/// errors call it.
Secret read_secret_line(int file, const std::string& name);

inline constexpr size_t kNonceBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;
/// Makes a random nonce. Throws RunError when the system's generator fails.
Nonce make_nonce();

/// Body of a hello, and the first bytes of a challenge: who speaks, whom it calls, its nonce.
inline constexpr size_t kIntroductionBytes = 32 + kNonceBytes;
using Introduction = std::array<std::byte, kIntroductionBytes>;

/// The keys that seal the frames after a handshake, one for each direction.
struct SessionKeys {
  Gmac::Key sent, received;
};

/// The result of an incoming body.
struct HandshakeStep {
  std::string error;  ///< why the peer is refused, or ""; the rest counts only without it
  std::vector<std::byte> reply;      ///< body of the next frame to the peer
  std::optional<PeerIdentity> peer;  ///< the peer as proved, without its address
  std::optional<SessionKeys> keys;   ///< shared with the peer, if there is a secret
};

/// The end that connected: sends hello(), reads a challenge, answers with a proof. Whoever is not
/// `called`, of the same job and view, is refused.
class Initiator {
 public:
  Initiator(Secret secret, const PeerIdentity& self, NodeId called, const Nonce& nonce);
  std::span<const std::byte> hello() const { return hello_; }
  /// Answers a challenge: the reply is the proof, and the peer is known.
  HandshakeStep challenge(std::span<const std::byte> body) const;

 private:
  Secret secret_;
  Introduction hello_;
};

/// The end that was connected to: reads a hello, answers with a challenge, reads a proof. A hello
/// that is meant for somebody else, or of another job or view, gets no answer that could be passed
/// on.
class Acceptor {
 public:
  Acceptor(Secret secret, const PeerIdentity& self, const Nonce& nonce);
  /// Answers a hello: the reply is the challenge.
  HandshakeStep hello(std::span<const std::byte> body);
  /// Who the hello came from, as it says; nothing is proved yet.
  PeerIdentity caller() const;
  /// Checks a proof, by which the peer is known. Called after a hello() without an error.
  HandshakeStep proof(std::span<const std::byte> body) const;

 private:
  Secret secret_;
  Introduction introduction_;
  Introduction hello_{};
};

}  // namespace poseidon::comm
