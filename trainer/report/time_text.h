#pragma once

#include <chrono>
#include <string>

namespace poseidon::trainer {

/// The current time of day as "2026-03-01T14:05:09.250Z".
std::string time_of_day(
    std::chrono::system_clock::time_point when = std::chrono::system_clock::now());

/// Text such as "1:02:03", "4:05", "12 s".
std::string duration_text(double seconds);

}  // namespace poseidon::trainer
