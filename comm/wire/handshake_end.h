#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "comm/wire/handshake.h"

namespace poseidon::comm {

/// One end of a handshake, initiator or acceptor: it knows the expected frame and processes it.
class HandshakeEnd {
 public:
  using Refusal = std::function<std::string(const PeerIdentity& caller)>;

  explicit HandshakeEnd(std::variant<Initiator, Acceptor> end) : end_(std::move(end)) {}

  bool initiates() const { return std::holds_alternative<Initiator>(end_); }
  /// The body of the first frame, which the initiator sends.
  std::vector<std::byte> hello() const;
  FrameKind expected() const;
  /// Processes the expected frame. An acceptor refuses a caller for which `refusal` returns a
  /// reason.
  HandshakeStep take(std::span<const std::byte> body, const Refusal& refusal);
  /// The kind of the frame that carries the reply to a frame of `kind`; nullopt: there is no reply.
  static std::optional<FrameKind> reply_to(FrameKind kind);

 private:
  std::variant<Initiator, Acceptor> end_;
  bool hello_received_ = false;  ///< whether an acceptor has received a hello
};

}  // namespace poseidon::comm
