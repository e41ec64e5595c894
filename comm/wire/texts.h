#pragma once

#include <memory>
#include <string>

#include "comm/wire/transport.h"
#include "core/error.h"

/// Texts of the protocol's state machines, for frames and for users.
namespace poseidon::comm {

inline Payload payload_of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {std::as_bytes(std::span(*owner)), owner};
}

/// Returns `text` if it has at most `most` bytes. Otherwise returns its first `most` bytes and
/// "...".
inline std::string shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

inline std::string seconds_text(Time time) {
  return text(std::chrono::duration<double>(time).count(), " s");
}

}  // namespace poseidon::comm
