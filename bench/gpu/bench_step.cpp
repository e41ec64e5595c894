// Measures a training step of a single worker: its passes and updates, without the upload of a
// batch. Compares graph capture, which issues repeated work as graphs, with issuing each operation
// separately. Prints one JSON object.
//   bench_step NETWORK.json BATCH PRECISION [--cpu]      PRECISION: fp32, tf32 or bf16
//                                                        --cpu: the CPU, always in fp32
#include <algorithm>
#include <chrono>
#include <iostream>
#include <vector>

#include "core/json.h"
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

layers::Backend backend_of(const Request& request, cuda::Graphs graphs) {
  if (request.cpu) return layers::cpu::make_cpu_backend(0, DataType::kFp32);
  return layers::cuda::open_library().make_backend(
      {.index = 0, .settings = {.precision = request.precision, .graphs = graphs}});
}

/// A worker with the components of a real run. step() issues the device's work in nearly the same
/// order as TrainingLoop::step().
class Worker {
 public:
  Worker(const Request& request, cuda::Graphs graphs)
      : backend_(backend_of(request, graphs)),
        network_(request.network, request.batch),
        net_(network_, *backend_.factory, {.versions = 2}),
        optimizer_({}, net_, *backend_.updater),
        exchange_(net_, *backend_.updater, 1),
        schedule_({}, 1e-6, 1, 1, ""),
        updates_(net_, optimizer_, exchange_, schedule_, nullptr, 1),
        updated_(static_cast<size_t>(net_.layer_count())),
        labels_(static_cast<size_t>(request.batch)) {
    net_.values().initialize(1);
  }

  void step() {
    const layers::StepParameters numbers{.seed = 1, .step = step_};
    const layers::StepContext context{.numbers = &numbers,
                                      .labels = labels_,
                                      .loss_scale = 1 / static_cast<float>(labels_.size())};
    Device& device = net_.device();
    net_.forward(context, [&](int layer) { device.await(updated_[static_cast<size_t>(layer)]); });
    exchange_.begin_backward(0);
    exchange_.contribute_statistics(0);
    net_.backward(
        context, [&](int layer) { exchange_.contribute(layer, 0); }, [&] { update(); });
    update();
    ++step_;
  }

  double milliseconds_of(int steps) {
    net_.device().record().wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    for (const Event& each : updated_) each.wait();
    net_.device().record().wait();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
               .count() /
           steps;
  }

 private:
  void update() {
    while (const std::optional<int> layer = exchange_.arrived())
      updated_[static_cast<size_t>(*layer)] = net_.device().issue_on_stream(
          DeviceStream::kUpdate, net_.device().record(), [&] { updates_.make(*layer, step_); });
  }

  layers::Backend backend_;
  net::Network network_;
  net::Net net_;
  Optimizer optimizer_;
  LocalExchange exchange_;
  Schedule schedule_;
  LayerUpdates updates_;
  std::vector<Event> updated_;  ///< by layer: the end of its last update
  std::vector<int32_t> labels_;
  int64_t step_ = 0;
};

/// Milliseconds of a step: the median of five rounds, after six warm-up steps, in which repeated
/// work is captured.
double step_milliseconds(const Request& request, cuda::Graphs graphs) {
  Worker worker(request, graphs);
  worker.milliseconds_of(6);
  const int steps = request.cpu ? 2 : 50;
  std::vector<double> rounds;
  for (int i = 0; i < 5; ++i) rounds.push_back(worker.milliseconds_of(steps));
  std::ranges::sort(rounds);
  return rounds[2];
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
    const Json result{{"graphs_ms", step_milliseconds(request, cuda::Graphs::kUsed)},
                      {"pieces_ms", step_milliseconds(request, cuda::Graphs::kNone)}};
    std::cout << result.dump() << '\n';
  } catch (const ConfigError& error) {
    std::cerr << "bench_step: cannot measure: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bench_step: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
