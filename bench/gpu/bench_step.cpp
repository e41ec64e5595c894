// Measures a training step of a single worker: its passes and updates, without the upload of a
// batch. The first measurement issues each operation separately ("pieces"), the second issues
// repeated work as graphs. After each measurement, prints a line with a JSON object, which has all
// results so far. If a measurement fails, its result is an error instead of a time, and the exit
// code is 1. "warnings" lists the graphs that CUDA refused.
//   bench_step NETWORK.json BATCH PRECISION [--cpu]      PRECISION: fp32, tf32 or bf16
//                                                        --cpu: the CPU, always in fp32
#include <algorithm>
#include <chrono>
#include <iostream>
#include <mutex>
#include <vector>

#include "core/json.h"
#include "core/log.h"
#include "layers/cpu/backend.h"
#include "layers/cuda/opener.h"
#include "trainer/step/exchange.h"
#include "trainer/step/layer_updates.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

struct Request {
  std::string network;
  int64_t batch = 1;
  cuda::Precision precision = cuda::Precision::kFp32;
  bool cpu = false;
};

/// Collects warnings for the result.
class Warnings final : public Log {
 public:
  void info(std::string_view) override {}
  void warning(std::string_view message) override {
    std::lock_guard lock(mutex_);
    messages_.push_back(message);
  }
  Json messages() const { return messages_; }

 private:
  std::mutex mutex_;
  Json messages_ = Json::array();
};

layers::Backend backend_of(const Request& request, cuda::Graphs graphs, Log& log) {
  if (request.cpu) return layers::cpu::make_cpu_backend(0, DataType::kFp32);
  return layers::cuda::open_library().make_backend(
      {.index = 0, .settings = {.precision = request.precision, .graphs = graphs, .log = &log}});
}

/// A worker with the components of a real run. step() issues the device's work in the order of
/// TrainingLoop::step(), but does not divide the backward pass, and does not wait for the loss.
class Worker {
 public:
  Worker(const Request& request, cuda::Graphs graphs, Log& log)
      : backend_(backend_of(request, graphs, log)),
        network_(request.network, request.batch),
        net_(network_, *backend_.factory, {.versions = 2}),
        optimizer_({}, net_, *backend_.updater),
        exchange_(net_, *backend_.updater, 1),
        schedule_({}, 1e-6, 1, 1, ""),
        updates_(net_, optimizer_, exchange_, schedule_, nullptr, 1),
        labels_(static_cast<size_t>(request.batch)) {
    net_.values().initialize(1);
  }

  void step() {
    const layers::StepParameters numbers{.seed = 1, .step = step_};
    const layers::StepContext context{.numbers = &numbers,
                                      .labels = labels_,
                                      .loss_scale = 1 / static_cast<float>(labels_.size())};
    Device& device = net_.device();
    device.await(updated_);
    net_.forward(context);
    exchange_.begin_backward(0);
    net_.backward(context);
    exchange_.contribute_statistics(0);
    std::vector<FinalGradient> gradients;
    for (const int layer : net_.parameters().summed_layers())
      if (net_.parameters().announces(layer)) gradients.push_back({layer, {}});
    exchange_.contribute(gradients, 0);
    std::vector<int> summed;
    while (const std::optional<int> layer = exchange_.arrived()) summed.push_back(*layer);
    updated_ = device.issue_on_stream(DeviceStream::kUpdate, device.record(),
                                      [&] { updates_.make(summed, step_); });
    ++step_;
  }

  double milliseconds_of(int steps) {
    net_.device().record().wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    updated_.wait();
    net_.device().record().wait();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
               .count() /
           steps;
  }

 private:
  layers::Backend backend_;
  net::Network network_;
  net::Net net_;
  Optimizer optimizer_;
  LocalExchange exchange_;
  Schedule schedule_;
  LayerUpdates updates_;
  Event updated_;  ///< the end of the last update
  std::vector<int32_t> labels_;
  int64_t step_ = 0;
};

/// Milliseconds of a step: the median of five rounds of about half a second, after six warm-up
/// steps, in which libraries load their code and repeated work is captured.
double step_milliseconds(const Request& request, cuda::Graphs graphs, Log& log) {
  Worker worker(request, graphs, log);
  worker.milliseconds_of(6);
  const double estimate = std::max(worker.milliseconds_of(2), 0.01);
  const int steps = request.cpu ? 2 : std::clamp(static_cast<int>(500 / estimate), 2, 500);
  std::vector<double> rounds;
  for (int i = 0; i < 5; ++i) rounds.push_back(worker.milliseconds_of(steps));
  std::ranges::sort(rounds);
  return rounds[2];
}

/// Adds the time of a step, or the error, to `result`, and prints `result`. Does not catch
/// ConfigError.
void measure(const Request& request, cuda::Graphs graphs, const std::string& way, Json& result) {
  Warnings warnings;
  try {
    result[way + "_ms"] = step_milliseconds(request, graphs, warnings);
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    result[way + "_error"] = error.what();
  }
  for (const Json& message : warnings.messages()) result["warnings"].push_back(message);
  std::cout << result.dump() << std::endl;
}

Request read_request(const std::vector<std::string>& words) {
  if (words.size() < 3) throw ConfigError("expected NETWORK.json BATCH PRECISION [--cpu]");
  Request request{.network = words[0], .batch = std::stoll(words[1]), .cpu = words.size() > 3};
  if (words[2] == "tf32") request.precision = cuda::Precision::kTf32;
  if (words[2] == "bf16") request.precision = cuda::Precision::kBf16;
  return request;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Request request = read_request({arguments + 1, arguments + count});
    Json result{{"warnings", Json::array()}};
    measure(request, cuda::Graphs::kNone, "pieces", result);
    measure(request, cuda::Graphs::kUsed, "graphs", result);
    return result.contains("pieces_error") || result.contains("graphs_error") ? 1 : 0;
  } catch (const ConfigError& error) {
    std::cerr << "bench_step: cannot measure: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bench_step: " << error.what() << '\n';
    return 1;
  }
}
