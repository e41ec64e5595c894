#include "comm/wire/handshake_end.h"

namespace poseidon::comm {

std::vector<std::byte> HandshakeEnd::hello() const {
  const auto hello = std::get<Initiator>(end_).hello();
  return {hello.begin(), hello.end()};
}

FrameKind HandshakeEnd::expected() const {
  if (initiates()) return FrameKind::kChallenge;
  return hello_received_ ? FrameKind::kProof : FrameKind::kHello;
}

HandshakeStep HandshakeEnd::take(std::span<const std::byte> body, const Refusal& refusal) {
  if (const auto* initiator = std::get_if<Initiator>(&end_)) return initiator->challenge(body);
  auto& acceptor = std::get<Acceptor>(end_);
  if (hello_received_) return acceptor.proof(body);
  hello_received_ = true;
  HandshakeStep step = acceptor.hello(body);
  if (step.error.empty()) step.error = refusal(acceptor.caller());
  return step;
}

std::optional<FrameKind> HandshakeEnd::reply_to(FrameKind kind) {
  if (kind == FrameKind::kHello) return FrameKind::kChallenge;
  if (kind == FrameKind::kChallenge) return FrameKind::kProof;
  return std::nullopt;
}

}  // namespace poseidon::comm
