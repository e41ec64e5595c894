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

/// The handshake of a connection: both ends prove that they know the same secret, and their
/// identities. There is no I/O here: the functions receive and return bodies of frames. The format
/// and the proofs: docs/wire-format.md, docs/security.md.
namespace poseidon::comm {

/// The shared secret of a cluster. Empty: the cluster has no secret, and nothing is proved.
using Secret = std::vector<std::byte>;
inline constexpr size_t kMinSecretBytes = 16;

/// Reads a secret from a file, without the white space at its end. Warns if other users may read
/// the file. Throws the errors of read_file(), and ConfigError if the secret has fewer than
/// kMinSecretBytes bytes.
Secret read_secret(const std::string& path, Log& log);
/// Reads a secret from the first line of an open file, without the white space at its end. Reads
/// nothing after that line. `file` is a descriptor; `name` stands for the file in errors. Throws
/// ConfigError if the secret has fewer than kMinSecretBytes bytes.
Secret read_secret_line(int file, const std::string& name);

inline constexpr size_t kNonceBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;
/// Makes a random nonce. Throws RunError when the system's generator fails.
Nonce make_nonce();

/// Body of a hello, and the first bytes of a challenge: the sender, the called node, the sender's
/// nonce.
inline constexpr size_t kIntroductionBytes = 32 + kNonceBytes;
using Introduction = std::array<std::byte, kIntroductionBytes>;

/// The keys that seal the frames after a handshake: one for each direction.
struct SessionKeys {
  Gmac::Key sent, received;
};

/// The result of processing a received body.
struct HandshakeStep {
  std::string error;  ///< why the peer is refused, or ""; if set, ignore the other fields
  std::vector<std::byte> reply;      ///< body of the next frame to the peer
  std::optional<PeerIdentity> peer;  ///< the proved identity of the peer, without its address
  std::optional<SessionKeys> keys;   ///< shared with the peer; nullopt: the cluster has no secret
};

/// The end that connected: sends hello(), reads a challenge, replies with a proof. It refuses a
/// peer that is not the called node. Unless the coordinator was called, it also refuses a peer of
/// another job or view.
class Initiator {
 public:
  Initiator(Secret secret, const PeerIdentity& self, NodeId called, const Nonce& nonce);
  std::span<const std::byte> hello() const { return hello_; }
  /// Processes a challenge. On success the reply is the proof, and `peer` is set.
  HandshakeStep challenge(std::span<const std::byte> body) const;

 private:
  Secret secret_;
  Introduction hello_;
};

/// The end that accepted: reads a hello, replies with a challenge, reads a proof. It sends no
/// challenge in reply to a hello that mismatch() refuses (comm/wire/identity.h), because an
/// attacker could relay the challenge.
class Acceptor {
 public:
  Acceptor(Secret secret, const PeerIdentity& self, const Nonce& nonce);
  /// Processes a hello. The reply is the challenge.
  HandshakeStep hello(std::span<const std::byte> body);
  /// The identity that the hello claims; it is not proved yet.
  PeerIdentity caller() const;
  /// Checks a proof. If the proof is correct, `peer` is set. Call it only after hello() returned no
  /// error.
  HandshakeStep proof(std::span<const std::byte> body) const;

 private:
  Secret secret_;
  Introduction introduction_;
  Introduction hello_{};
};

}  // namespace poseidon::comm
