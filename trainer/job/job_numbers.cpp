#include "trainer/job/job_numbers.h"

#include <cmath>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// Formats 50000 as "50,000".
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (int64_t at = std::ssize(digits) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string samples_text(const data::DatasetDescription& data) {
  std::string out = grouped(data.samples) + (data.samples == 1 ? " sample" : " samples");
  if (data.classes.empty()) return out;
  if (data.classes.size() == 1) return out + " of 1 class (" + data.classes[0] + ")";
  return out + text(" of ", grouped(std::ssize(data.classes)), " classes (", data.classes.front(),
                    data.classes.size() == 2 ? ", " : " ... ", data.classes.back(), ")");
}

struct ParameterCounts {
  int64_t trained = 0, frozen = 0;
};

ParameterCounts counts_of(const net::Network& network) {
  ParameterCounts counts;
  for (const net::Node& node : network.nodes())
    for (const layers::ParameterSpec& spec : node.parameters())
      (spec.learning_rate_multiplier > 0 ? counts.trained : counts.frozen) += spec.shape.count();
  return counts;
}

std::string steps_text(double steps) {
  const double tenths = std::round(10 * steps) / 10;
  if (tenths == std::round(tenths)) return grouped(static_cast<int64_t>(tenths));
  return grouped(static_cast<int64_t>(tenths)) +
         text(".", static_cast<int64_t>(std::round(10 * tenths)) % 10);
}

}  // namespace

std::string job_in_numbers(const Job& job, const KnownData& data) {
  std::string out;
  if (data.train) out = samples_text(*data.train);
  if (data.test) out += text(out.empty() ? "" : ", ", grouped(data.test->samples), " for tests");
  const ParameterCounts counts = counts_of(*job.network);
  out += text(out.empty() ? "" : "; ", grouped(counts.trained), " parameters are trained, ",
              counts.frozen == 0 ? "none" : grouped(counts.frozen), " frozen");
  if (data.train)
    out += text("; ",
                steps_text(static_cast<double>(data.train->samples) /
                           static_cast<double>(job.config.global_batch())),
                " steps per epoch");
  return out;
}

}  // namespace poseidon::trainer
