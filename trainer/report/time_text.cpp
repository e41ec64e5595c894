#include "trainer/report/time_text.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace poseidon::trainer {

namespace {

template <class... Values>
std::string printed(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

std::string time_of_day(std::chrono::system_clock::time_point when) {
  using namespace std::chrono;
  const auto since = floor<milliseconds>(when.time_since_epoch());
  const std::time_t whole = floor<seconds>(since).count();
  std::tm utc{};
  gmtime_r(&whole, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  return text.data() + printed(".%03dZ", static_cast<int>(since.count() - whole * 1000));
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return printed("%lld s", whole);
  if (whole < 3600) return printed("%lld:%02lld", whole / 60, whole % 60);
  return printed("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace poseidon::trainer
