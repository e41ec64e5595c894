// Errors when a device has too little memory: the suggested batch size.

#include <doctest/doctest.h>

#include "core/cpu/cpu_device.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"
#include "tests/cuda/emulated_gpu_jobs.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/step/engine.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/worker_layer.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// The CPU with a limit on device memory.
class SmallCpu final : public cpu::CpuDevice {
 public:
  explicit SmallCpu(size_t memory) : CpuDevice(1), left_(std::make_shared<size_t>(memory)) {}

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override {
    if (place != MemoryKind::kDevice) return CpuDevice::allocate(bytes, place, purpose);
    if (bytes > *left_) throw OutOfMemory("out of memory");
    *left_ -= bytes;
    auto memory = std::make_shared<Buffer>(bytes, purpose);
    return Buffer(memory->data(), bytes,
                  [memory, left = left_](void*, size_t size) { *left += size; });
  }
  size_t available() const override { return *left_; }

 private:
  const std::shared_ptr<size_t> left_;
};

layers::Backend small_cpu(size_t memory) {
  auto device = std::make_unique<SmallCpu>(memory);
  auto factory = layers::cpu::make_cpu_factory(*device);
  auto updater = layers::cpu::make_cpu_updater(device->team());
  return {std::move(device), std::move(factory), std::move(updater)};
}

layers::Backend small_gpu(size_t memory) {
  return test::make_emulated_gpu_backend({.memory = memory});
}

/// The error when the job's net and optimizer are made; "" if there is enough memory for both.
std::string fault_of(layers::Backend backend, const Job& job, const net::Net::Options& options) {
  return error_of<OutOfMemory>([&] {
    SilentLog log;
    Engine engine(std::move(backend), job, options, log);
    const Optimizer optimizer(job.config.optimizer, engine.net(), engine.updater());
  });
}

/// The suggested batch size in the message: 48 in "... from 64 to at most 48".
int64_t named_batch(const std::string& fault) {
  const std::string before = " to at most ";
  const size_t at = fault.find(before);
  REQUIRE(at != std::string::npos);
  return std::stoll(fault.substr(at + before.size()));
}

}  // namespace

TEST_CASE("out of memory: the message names the largest batch that fits") {
  const TinyJob tiny(kSmallResNet);
  const std::string key = "data.batch_per_worker=";
  for (const auto& make_small : {small_cpu, small_gpu})
    for (const int versions : {1, 2})
      for (const size_t memory : {size_t{500'000}, size_t{550'001}, size_t{800'000}}) {
        CAPTURE(memory);
        const net::Net::Options options{.versions = versions};
        const std::string fault = fault_of(make_small(memory), tiny.load({key + "512"}), options);
        CHECK(fault.find(" are available: reduce data.batch_per_worker from 512 to at most ") !=
              std::string::npos);
        const int64_t batch = named_batch(fault);
        const auto fault_with = [&](int64_t other) {
          return fault_of(make_small(memory), tiny.load({key + std::to_string(other)}), options);
        };
        CHECK(batch >= 1);
        CHECK(fault_with(batch) == "");
        CHECK(fault_with(batch + 1) != "");
      }
}

TEST_CASE("out of memory: the named batch is divisible by shards and workers") {
  const TinyJob tiny;
  for (const auto& [overrides, unit] :
       {std::pair(std::vector<std::string>{"data.global_batch=1200", "cluster.workers=2",
                                           "cluster.logical_shards=5"},
                  int64_t{5}),
        std::pair(std::vector<std::string>{"data.batch_per_worker=600", "cluster.workers=2",
                                           "cluster.logical_shards=4"},
                  int64_t{2}),
        std::pair(std::vector<std::string>{"data.batch_per_worker=600", "cluster.workers=2",
                                           "cluster.logical_shards=5"},
                  int64_t{5})}) {
    std::vector<std::string> changed = overrides;
    const std::string fault = fault_of(small_gpu(50'000), tiny.load(changed), {.versions = 2});
    const int64_t batch = named_batch(fault);
    CHECK(batch % unit == 0);
    const std::string key = changed[0].substr(0, changed[0].find('=') + 1);
    changed[0] = key + std::to_string(batch);
    CHECK(fault_of(small_gpu(50'000), tiny.load(changed), {.versions = 2}) == "");
    changed[0] = key + std::to_string(batch + unit);
    CHECK(fault_of(small_gpu(50'000), tiny.load(changed), {.versions = 2}) != "");
  }
}

TEST_CASE("the estimate of a layer's sums includes device memory for their conversion") {
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.workers=2", "cluster.servers=1", "comm.scheme=ps"});
  SilentLog log;
  Engine engine(small_gpu(size_t{1} << 20), job, {.versions = 2}, log);
  const comm::Plan plan = sync_plan(job, plan_request(job));
  const OwnShards own(plan, 0, 0, 1);
  constexpr size_t kWeight = 5 * 2 * 9, kPaddedWeight = 96;
  const size_t before = engine.net().device().available();
  const auto convolution = make_worker_layer(engine.net(), engine.updater(), plan, 0, own, nullptr);
  CHECK(before - engine.net().device().available() == kWeight * sizeof(float));
  CHECK(bytes_of_worker_layer(engine.net(), plan, 0, own) ==
        (kWeight + kPaddedWeight) * sizeof(float));
}

TEST_CASE("out of memory: the message states if no batch fits, or if bf16 needs less") {
  const TinyJob tiny;
  const std::string none = fault_of(small_gpu(1000), tiny.load(), {});
  CHECK(none.ends_with("; 1.0 kB are available, too little for any batch"));
  const std::string hint = "; \"device.precision\": \"bf16\" needs less";
  CHECK(
      fault_of(small_cpu(600'000), tiny.load({"data.batch_per_worker=4096"}), {}).ends_with(hint));
  const std::string rounded = fault_of(
      small_gpu(50'000), tiny.load({"data.batch_per_worker=4096", "device.precision=bf16"}), {});
  CHECK(named_batch(rounded) > 0);
  CHECK_FALSE(rounded.ends_with(hint));
}
