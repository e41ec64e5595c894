#include "comm/wire/congestion_control.h"

namespace poseidon::comm {

const std::vector<std::string>& congestion_control_names() {
  static const std::vector<std::string> kNames{"auto", "system", "bbr", "cubic", "reno"};
  return kNames;
}

std::vector<std::string> congestion_controls(
    CongestionControl setting, const std::string& system,
    const std::optional<std::chrono::microseconds>& round_trip) {
  if (setting == CongestionControl::kSystem) return {system};
  if (setting != CongestionControl::kAuto)
    return {congestion_control_names()[static_cast<size_t>(setting)]};
  const bool is_short = round_trip && *round_trip < kShortRoundTrip;
  if (!is_short || !system.starts_with("bbr")) return {system};
  return {"cubic", "reno", system};
}

}  // namespace poseidon::comm
