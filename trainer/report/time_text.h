#pragma once

#include <chrono>
#include <string>

namespace poseidon::trainer {

/// Date and time in UTC, as "2026-03-01T14:05:09.250Z". Default: now.
std::string time_of_day(
    std::chrono::system_clock::time_point when = std::chrono::system_clock::now());

/// A duration as "1:02:03" (hours), "4:05" (minutes), or "12 s".
std::string duration_text(double seconds);

}  // namespace poseidon::trainer
