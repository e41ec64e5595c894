#include "net/diagnosis.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "net/net.h"
#include "net/program.h"

namespace poseidon::net {

namespace {

bool all_finite(const std::vector<float>& values) {
  bool finite = true;
  for (const float value : values) finite = finite && std::isfinite(value);
  return finite;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Milliseconds from the first of `calls` calls of `work` until the device has finished all of
/// them.
template <class Work>
double milliseconds_of(Device& device, const Work& work, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) work();
  device.record().wait();
  return milliseconds_since(start);
}

/// Milliseconds for one call of `work`. On an asynchronous device, issuing short work and waiting
/// for it take about as long as the work. Therefore short work is issued several times before one
/// wait.
template <class Work>
double milliseconds_of(Device& device, const Work& work) {
  constexpr double kLongEnough = 1;
  constexpr int kMaxCalls = 20;
  const double once = milliseconds_of(device, work, 1);
  if (device.shares_memory()) return once;
  const int calls = once > 0 ? static_cast<int>(std::min(kLongEnough / once, 1.0 * kMaxCalls)) : 1;
  return calls > 1 ? milliseconds_of(device, work, calls) / calls : once;
}

template <class Memory>
bool is_finite(Device& device, const Memory& memory) {
  return all_finite(read_values(device, memory));
}

}  // namespace

// ---- values that are not finite

std::string Diagnosis::first_non_finite(const layers::StepContext& step) {
  // Write no factors, because the transfer to the peers may still read the factor memory.
  for (Call& call : program_.calls()) call.factors = {};
  const std::string found = first_in_forward(net_.on_device(step));
  return found.empty() ? first_in_backward(step) : found;
}

std::string Diagnosis::first_in_forward(const layers::StepContext& step) {
  for (Call& call : program_.calls()) {
    if (call.node >= 0)
      for (const int index : net_.parameters().of(call.node))
        if (!is_finite(net_.device(), net_.parameters()[static_cast<size_t>(index)].value()))
          return program_.name_of(call);
    call.layer->forward(step, call.memory);
    if (!is_finite(net_.device(), call.memory.output)) return program_.name_of(call);
  }
  return "";
}

std::string Diagnosis::first_in_backward(const layers::StepContext& step) {
  std::string found;
  net_.backward(step, [&](int layer) {
    if (net_.factor_shape(layer)) return;  // its gradients exist only after Net::rebuild()
    for (const int index : net_.parameters().of(layer))
      if (found.empty() &&
          !is_finite(net_.device(), net_.parameters()[static_cast<size_t>(index)].gradient))
        found = net_.layer_name(layer);
  });
  return found;
}

// ---- times

std::vector<Timing> Diagnosis::time(const layers::StepContext& host_step, int repeats) {
  const layers::StepContext step = net_.on_device(host_step);
  const auto time_of = [this](const auto& work) { return milliseconds_of(net_.device(), work); };
  std::vector<Call>& calls = program_.calls();
  std::vector<std::vector<double>> forward_ms(calls.size()), backward_ms(calls.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto forward = [&] { calls[i].layer->forward(step, calls[i].memory); };
      forward_ms[i].push_back(time_of(forward));
    }
    for (size_t i = calls.size(); i-- > 0;) {
      if (!calls[i].runs_backward) continue;
      backward_ms[i].push_back(time_of([&] {
        if (calls[i].writes_factors) calls[i].layer->write_factors(calls[i].memory, {});
        calls[i].layer->backward(step, calls[i].memory);
      }));
    }
  }
  std::vector<Timing> out;
  for (size_t i = 0; i < calls.size(); ++i)
    out.push_back({{operation_info(calls[i])},
                   median(forward_ms[i]),
                   backward_ms[i].empty() ? 0 : median(backward_ms[i]),
                   calls[i].definition ? calls[i].definition->multiply_adds() : 0});
  return out;
}

double Diagnosis::time_pass(const layers::StepContext& step, int repeats) {
  std::vector<double> times;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    net_.forward(step);
    net_.backward(step);
    net_.device().record().wait();
    times.push_back(milliseconds_since(start));
  }
  return median(times);
}

// ---- implementations, choices and warnings

std::vector<OperationInfo> Diagnosis::operation_info() const {
  std::vector<OperationInfo> out;
  for (const Call& call : program_.calls()) out.push_back(operation_info(call));
  return out;
}

OperationInfo Diagnosis::operation_info(const Call& call) const {
  OperationInfo out{.name = program_.name_of(call),
                    .type = call.definition ? std::string(call.definition->type()) : "reorder",
                    .implementations = call.layer->implementations()};
  if (out.implementations != layers::Implementations{}) return out;
  out.implementations.forward = layers::kOwnCode;
  if (call.makes_input_gradient) out.implementations.backward_data = layers::kOwnCode;
  if (call.runs_backward && call.definition && !call.definition->parameters().empty())
    out.implementations.backward_weights = layers::kOwnCode;
  return out;
}

std::vector<std::string> Diagnosis::warnings() const {
  std::vector<std::string> out;
  for (const Call& call : program_.calls())
    if (!call.layer->warning().empty()) out.push_back(call.layer->warning());
  return out;
}

std::map<std::string, std::vector<layers::AlgorithmChoice>> Diagnosis::alternatives() const {
  std::map<std::string, std::vector<layers::AlgorithmChoice>> out;
  for (const Call& call : program_.calls()) {
    if (!call.definition) continue;
    if (auto others = call.layer->alternatives(); !others.empty())
      out[call.definition->name] = std::move(others);
  }
  return out;
}

}  // namespace poseidon::net
