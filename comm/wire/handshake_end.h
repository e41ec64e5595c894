#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "comm/wire/handshake.h"

namespace poseidon::comm {

/// One end of a handshake, either end: which frame it expects, and what it makes of it.
class HandshakeEnd {
 public:
  using Refusal = std::function<std::string(const PeerIdentity& caller)>;

  explicit HandshakeEnd(std::variant<Initiator, Acceptor> end) : end_(std::move(end)) {}

  bool initiates() const { return std::holds_alternative<Initiator>(end_); }
  /// The first frame's body, of the end that initiates.
  std::vector<std::byte> hello() const;
  FrameKind expected() const;
  /// Takes the expected frame. A caller for whom `refusal` returns a reason is not let in.
  HandshakeStep take(std::span<const std::byte> body, const Refusal& refusal);
  /// The kind of frame by which the reply to a frame of this kind goes; none where nothing is due.
  static std::optional<FrameKind> reply_to(FrameKind kind);

 private:
  std::variant<Initiator, Acceptor> end_;
  bool hello_taken_ = false;  ///< whether an acceptor has taken a hello
};

}  // namespace poseidon::comm
