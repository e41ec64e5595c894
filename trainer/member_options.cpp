#include "trainer/member_options.h"

#include "comm/wire.h"
#include "core/error.h"

namespace poseidon::trainer {

std::string build_identity() {
  return text("poseidon ", POSEIDON_VERSION, ", wire format ", comm::kWireVersion, ", compiler ",
              __VERSION__);
}

MemberEnd end_of(const comm::Loss& loss) {
  const bool own_error =
      loss.kind == comm::Loss::Kind::kError || loss.kind == comm::Loss::Kind::kDrift;
  return own_error ? MemberEnd::kFailed : MemberEnd::kPeerLost;
}

std::unique_ptr<comm::AsioTransport> make_transport(
    const MemberOptions& options, comm::Role role, Log& log,
    std::function<void(std::exception_ptr)> failed) {
  comm::AsioOptions listening;
  listening.listen = options.listen;
  listening.self = {.role = role, .rank = -1, .view = 0, .address = ""};
  listening.secret = options.secret;
  listening.tls = options.tls;
  listening.insecure = options.insecure;
  // The log outlives the transport; it is not the transport's to destroy.
  listening.log = std::shared_ptr<Log>(&log, [](Log*) {});
  listening.on_failure = std::move(failed);
  return std::make_unique<comm::AsioTransport>(std::move(listening));
}

}  // namespace poseidon::trainer
