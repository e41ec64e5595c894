#include "comm/membership/coordinator_link.h"

#include "comm/membership/mtu_check.h"

namespace poseidon::comm {

void CoordinatorLink::connect(const PeerIdentity& self) {
  connection_ = transport_.connect(address_, self, NodeId{});
}

void CoordinatorLink::close() {
  if (open_) transport_.close(connection_);
  open_ = false;
}

void CoordinatorLink::send(const FrameHeader& header, Payload payload) {
  if (open_) transport_.send(connection_, header, std::move(payload), kBackground);
}

void CoordinatorLink::send_proof() {
  if (open_) MtuCheck::send_proof(transport_, connection_, view_);
}

void CoordinatorLink::drop_bulk() {
  if (open_) transport_.drop_bulk(connection_);
}

void CoordinatorLink::send_control(Payload encoded, Priority priority) {
  if (open_)
    transport_.send(connection_, {.kind = FrameKind::kControl, .view = view_}, std::move(encoded),
                    priority);
}

}  // namespace poseidon::comm
