// Arbitrary bytes as control messages from a peer: each is read or refused.

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/wire/messages.h"
#include "core/error.h"

namespace {

using namespace poseidon::comm;

template <class... Messages>
void read_as(const ControlMessage& message) {
  ((message.is<Messages>() ? static_cast<void>(message.as<Messages>()) : void()), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    read_as<Join, Welcome, Refused, Prepared, Planned, Ready, Start, Note, Digest, HaltQuery,
            Progress, HaltOffer, Halt, Lost, Failed, Stopped, Save, Saved, Finished, Conclude,
            Dismissed, Measure, Met, Probe, Measured>(
        ControlMessage(std::as_bytes(std::span(data, size))));
  } catch (const poseidon::ConfigError&) {
    // Refused with a reason, as it should be.
  }
  return 0;
}
