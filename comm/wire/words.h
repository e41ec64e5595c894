#pragma once

#include <memory>
#include <string>

#include "comm/wire/transport.h"
#include "core/error.h"

/// Words of the protocol's state machines: as frames carry them, and as people read them.
namespace poseidon::comm {

inline Payload payload_of(std::string words) {
  auto owner = std::make_shared<const std::string>(std::move(words));
  return {std::as_bytes(std::span(*owner)), owner};
}

inline std::string seconds_text(Time time) {
  return text(std::chrono::duration<double>(time).count(), " s");
}

}  // namespace poseidon::comm
