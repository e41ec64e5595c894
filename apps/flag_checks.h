#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

#include "comm/wire/address.h"
#include "core/error.h"

/// Validators for arguments of the command line. CLI11 prints the error text that they return.
namespace poseidon::apps {

/// Accepts whole numbers from `least` to `most`. CLI11's own range check is not used: its
/// conversion silently replaces a number that is too large by the largest one, and its messages
/// print 309 digits.
inline CLI::Validator whole_number(int64_t least,
                                   int64_t most = std::numeric_limits<int64_t>::max()) {
  const std::string range = most == std::numeric_limits<int64_t>::max()
                                ? ">= " + std::to_string(least)
                                : "from " + std::to_string(least) + " to " + std::to_string(most);
  const auto refusal = [=](const std::string& given) -> std::string {
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(given.data(), given.data() + given.size(), value);
    const bool whole = fault == std::errc() && end == given.data() + given.size();
    if (whole && value >= least && value <= most) return "";
    constexpr size_t kMaxShown = 40;
    const bool cut = given.size() > kMaxShown;
    return "expected a whole number " + range + ", got " + given.substr(0, kMaxShown) +
           (cut ? "..." : "");
  };
  return CLI::Validator(refusal, "", "whole number");
}

/// Accepts HOST:PORT with a port of at least `least_port`. Pass 1 for an address to connect to,
/// because port 0 means "any free port".
inline CLI::Validator address(uint16_t least_port = 0) {
  const auto refusal = [=](const std::string& given) -> std::string {
    try {
      if (comm::parse_address(given).port >= least_port) return "";
      return "expected a port of 1 to 65535, got " + given;
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  return CLI::Validator(refusal, "", "address");
}

}  // namespace poseidon::apps
