// Arbitrary bodies for both ends of a handshake, with and without a secret. With a secret, no end
// may accept a peer without a proof, which no input contains.

#include <cstdint>
#include <cstdlib>

#include "comm/wire/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon::comm;
  const std::span<const std::byte> body{reinterpret_cast<const std::byte*>(data), size};
  const PeerIdentity self{.role = Role::kServer, .rank = 0, .view = 7, .address = ""};
  for (const Secret& secret : {Secret(), Secret(24, std::byte{9})}) {
    Acceptor acceptor(secret, self, Nonce{});
    const HandshakeStep greeted = acceptor.hello(body);
    if (greeted.peer || greeted.error.empty() == greeted.reply.empty()) std::abort();
    const HandshakeStep proved = acceptor.proof(body);
    const Initiator initiator(secret, self, NodeId{Role::kServer, 0}, Nonce{});
    const HandshakeStep challenged = initiator.challenge(body);
    for (const HandshakeStep* step : {&proved, &challenged}) {
      if (step->error.empty() != step->peer.has_value()) std::abort();
      if (!secret.empty() && step->peer) std::abort();
    }
  }
  return 0;
}
