// Predictions for a GPU (bench/gpu/prediction.h), compared with counts by hand.

#include <doctest/doctest.h>

#include "bench/gpu/cost_model_driver.h"
#include "bench/gpu/prediction.h"
#include "core/error.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::bench;

namespace {

constexpr GpuRates kRates{.bytes_per_second = 1e9,
                          .host_bytes_per_second = 1e8,
                          .fp32_flops = 1e9,
                          .tf32_flops = 2e9,
                          .bf16_flops = 4e9,
                          .launch_seconds = 1e-6,
                          .memory_bytes = 1e6};

/// Eight images of 2 x 6 x 6. Five kernels of 3 x 3 give 5 x 4 x 4, and a linear layer gives 3
/// values.
constexpr const char* kNetwork = R"({
  "name": "counted", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv", "type": "convolution", "outputs": 5, "kernel": 3},
    {"name": "drop", "type": "dropout"},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

Prediction prediction(const std::string& precision) {
  const trainer::TinyJob tiny(kNetwork);
  return predict(tiny.load({"device.type=cuda", "device.precision=" + precision}), kRates);
}

Work kernel(const Prediction& prediction, const std::string& name) {
  const auto kernels = prediction.cost_counter.by_kernel();
  INFO(name);
  REQUIRE(kernels.contains(name));
  return kernels.at(name);
}

/// An operation that reads buffers.
class ReadOperation final : public cuda::Operation {
 public:
  explicit ReadOperation(std::vector<const Buffer*> read) : read_(std::move(read)) {}
  std::string name() const override { return "read"; }
  void visit(cuda::MemoryVisitor& visitor) const override {
    for (const Buffer* memory : read_) visitor.reads(memory->data(), memory->bytes());
  }
  void issue(const cuda::Executor&) const override {}

 private:
  std::vector<const Buffer*> read_;
};

}  // namespace

TEST_CASE("prediction: the time of an operation is that of memory or arithmetic, plus a launch") {
  CostCounter cost_counter(kRates);
  {
    const CostCounter::Part part(cost_counter, "outer");
    cost_counter.add("copy", {.bytes = 2e6});
    const CostCounter::Part inner(cost_counter, "inner");
    cost_counter.add("product", {.bytes = 1e6, .flop = 8e6, .arithmetic = Arithmetic::kTf32});
    cost_counter.add("product", {.flop = 8e6, .arithmetic = Arithmetic::kBf16, .launches = 2});
  }
  cost_counter.add("upload", {.host_bytes = 1e6});
  CHECK(cost_counter.by_kernel().at("copy").seconds == doctest::Approx(2e-3 + 1e-6));
  CHECK(cost_counter.by_kernel().at("product").seconds == doctest::Approx(4e-3 + 2e-3 + 3e-6));
  CHECK(cost_counter.by_kernel().at("upload").seconds == doctest::Approx(1e-2 + 1e-6));
  CHECK(cost_counter.by_part().at("inner").calls == 2);
  CHECK(cost_counter.by_part().at("outer").calls == 1);
  CHECK(cost_counter.all().memory_seconds == doctest::Approx(2e-3 + 1e-6));
}

TEST_CASE("prediction: CostModelDriver allocates only addresses, up to the GPU's memory") {
  CostCounter cost_counter(kRates);
  CostModelDriver driver(cost_counter);
  Buffer device = driver.allocate(600'000, MemoryKind::kDevice, "something");
  const Buffer staging = driver.allocate(1000, MemoryKind::kStaging, "something");
  CHECK(driver.available() == 400'000);
  CHECK(error_of<OutOfMemory>([&] { driver.allocate(400'001, MemoryKind::kDevice, "much"); }) ==
        "out of memory: cannot allocate 400001 bytes for much");
  const cuda::Stream stream = driver.make_stream(cuda::StreamPriority::kNormal);
  auto* inside = static_cast<std::byte*>(device.data()) + 599'999;
  driver.copy(stream, device.data(), inside, 1);
  driver.copy(stream, staging.data(), device.data(), 1000);
  driver.copy(stream, device.data(), staging.data(), 10);
  CHECK(cost_counter.by_kernel().at("copy").bytes == 2);
  CHECK(cost_counter.by_kernel().at(kUploadKernel).bytes == 1000);
  CHECK(cost_counter.by_kernel().at("copy from the GPU").bytes == 10);
  device = Buffer();
  CHECK(driver.available() == 1'000'000);
}

TEST_CASE("prediction: costs of a small network's step equal values computed by hand") {
  const Prediction fp32 = prediction("fp32");
  constexpr double kInput = 8 * 2 * 36, kOutput = 8 * 5 * 16, kWeight = 5 * 2 * 9;
  const Work forward = kernel(fp32, "convolution");
  CHECK(forward.calls == 1);
  CHECK(forward.bytes == 4 * (kInput + kWeight + kOutput));
  CHECK(forward.flop == 2 * kOutput * 18);
  CHECK(forward.seconds == doctest::Approx(forward.flop / 1e9 + 1e-6));
  CHECK(kernel(fp32, "convolution's weight gradient").bytes == 4 * (kInput + kWeight + kOutput));
  // The input of a network needs no gradient.
  CHECK(!fp32.cost_counter.by_kernel().contains("convolution's input gradient"));
  CHECK(kernel(fp32, "matrix product").calls == 3);
  CHECK(kernel(fp32, "matrix product").flop == 3 * 2 * 8 * 80 * 3);
  // Each pass also reads the step parameters.
  CHECK(kernel(fp32, "dropout of images").bytes ==
        2 * (4 * 2 * kOutput + sizeof(layers::StepParameters)));
  // One launch for each layer. Together the launches read the value, gradient, velocity and update
  // parameters of each of four tensors, and write the value and velocity.
  CHECK(kernel(fp32, "update").calls == 2);
  constexpr double kNumbers = 4 * sizeof(layers::UpdateParameters);
  CHECK(kernel(fp32, "update").bytes == 5 * 4 * (kWeight + 5 + 80 * 3 + 3) + kNumbers);
  CHECK(kernel(fp32, kUploadKernel).bytes ==
        4 * kInput + 8 * 4 + sizeof(layers::StepParameters) + kNumbers);
  CHECK(fp32.upload_seconds() == doctest::Approx(4 * kInput / 1e8 + 1e-6));
  CHECK(fp32.cost_counter.by_part().at("convolution forward").calls == 2);  // product and bias
}

TEST_CASE("prediction: kernels access no host memory, with one worker and with two") {
  const trainer::TinyJob tiny(kNetwork);
  for (const char* workers : {"1", "2"})
    for (const char* scheme : {"ps", "sfb"}) {
      CAPTURE(workers);
      CAPTURE(scheme);
      const Prediction prediction =
          predict(tiny.load({"device.type=cuda", std::string("cluster.workers=") + workers,
                             "cluster.servers=" + std::to_string(*workers - '1'),
                             std::string("comm.scheme=") + scheme}),
                  kRates);
      CHECK(prediction.workers == *workers - '0');
      CHECK(prediction.cost_counter.all().kernel_host_bytes == 0);
      if (prediction.workers == 1) continue;
      // The device copies the convolution's weight and bias, the linear layer's gradients or
      // factors, and the losses. One copy moves several tensors only if they are neighbors in the
      // memory of sums.
      const bool by_factors = std::string_view(scheme) == "sfb";
      CHECK(kernel(prediction, "copy from the GPU").calls == (by_factors ? 5 : 4));
    }
}

TEST_CASE("prediction: a kernel's accesses to host memory are counted") {
  CostCounter cost_counter(kRates);
  CostModelDriver driver(cost_counter);
  const Buffer device = driver.allocate(400, MemoryKind::kDevice, "something");
  const Buffer staging = driver.allocate(100, MemoryKind::kStaging, "something");
  driver.issue(driver.make_stream(cuda::StreamPriority::kNormal),
               std::make_unique<ReadOperation>(std::vector{&device, &staging}));
  CHECK(cost_counter.all().bytes == 500);
  CHECK(cost_counter.all().kernel_host_bytes == 100);
  CHECK(cost_counter.all().seconds == doctest::Approx(100 / 1e8 + 1e-6));
}

TEST_CASE("prediction: bf16 halves a convolution's bytes and adds a conversion of its gradient") {
  const Prediction tf32 = prediction("tf32"), bf16 = prediction("bf16");
  CHECK(kernel(bf16, "convolution").bytes == kernel(tf32, "convolution").bytes / 2);
  CHECK(kernel(bf16, "convolution").flop == kernel(tf32, "convolution").flop);
  CHECK(kernel(bf16, "convolution's weight gradient").bytes ==
        kernel(tf32, "convolution's weight gradient").bytes / 2 + (2 + 4) * 90);
  CHECK(kernel(bf16, "matrix product").bytes == kernel(tf32, "matrix product").bytes);
}

constexpr const char* kNormedNetwork = R"({
    "name": "normed", "input": {"channels": 2, "height": 6, "width": 6},
    "layers": [
      {"name": "conv", "type": "convolution", "outputs": 8, "kernel": 3},
      {"name": "bn", "type": "batch_norm"},
      {"name": "relu", "type": "relu"},
      {"name": "ip", "type": "linear", "outputs": 3},
      {"name": "loss", "type": "softmax_loss"}]})";

TEST_CASE("prediction: one launch updates a layer's parameters, statistics or averages") {
  const trainer::TinyJob tiny(kNormedNetwork);
  const Prediction plain = predict(tiny.load({"device.type=cuda"}), kRates);
  CHECK(kernel(plain, "update").calls == 3);
  CHECK(!plain.cost_counter.by_kernel().contains("average"));
  const Prediction averaged =
      predict(tiny.load({"device.type=cuda", "optimizer.average_decay=0.9"}), kRates);
  CHECK(kernel(averaged, "update").calls == 3);
  CHECK(kernel(averaged, "average").calls == 3);
}

TEST_CASE("prediction: batch norm with relu stores output signs as bits and reads them") {
  const trainer::TinyJob tiny(kNormedNetwork);
  constexpr double kValues = 8 * 8 * 16, kBits = kValues / 8, kChannels = 3 * 4 * 8;
  const Prediction bf16 = predict(tiny.load({"device.type=cuda", "device.precision=bf16"}), kRates);
  CHECK(kernel(bf16, "batch_norm normalize").bytes == 2 * 2 * kValues + kBits + kChannels);
  CHECK(kernel(bf16, "batch_norm input gradient").bytes ==
        3 * 2 * kValues + kBits + kChannels + 4 * 8);
}
