#include "trainer/plan/wire_advice.h"

#include <array>
#include <cstdio>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

constexpr double kWorthwhile = 2.0 / 3;

/// Three digits, or all digits of the integer part: "0.395", "51.2", "2814".
std::string short_number(double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), value < 100 ? "%.3g" : "%.0f", value);
  return digits.data();
}

}  // namespace

std::string wire_advice(comm::PlanRequest request, const comm::Plan& plan) {
  if (plan.wire == comm::WireFormat::kInt8 || plan.bytes_per_node == 0) return "";
  request.workers = plan.workers();
  request.servers = plan.servers();
  request.assignment = plan.assignment;
  request.wire = comm::WireFormat::kInt8;
  const double rounded = comm::follow_plan(request, plan).bytes_per_node;
  if (rounded > kWorthwhile * plan.bytes_per_node) return "";
  std::string advice =
      text("\"comm.wire\": \"int8\" would move ", short_number(rounded * 1e-6),
           " MB per node and step instead of ", short_number(plan.bytes_per_node * 1e-6));
  if (plan.link_mbps == 0) return advice;
  // Half of the bytes are sent and half received, at the same time.
  const double saved_ms = (plan.bytes_per_node - rounded) / 2 * 8 / (plan.link_mbps * 1e3);
  return advice + text(" (", short_number(saved_ms), " ms less on a link of ",
                       short_number(plan.link_mbps), " Mb/s)");
}

}  // namespace poseidon::trainer
