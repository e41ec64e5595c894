#include "tests/support/layer_backend.h"

#include <map>

#include "layers/cuda/opener.h"

namespace poseidon::test {

namespace {

using layers::Backend;

/// Reuses device allocations of the same size. An allocation on a GPU waits for all of its work,
/// and tests allocate the same sizes many times. Each buffer is a separate allocation, so that
/// compute-sanitizer detects accesses beyond it.
class Pool {
 public:
  Buffer take(Device& device, size_t bytes, MemoryKind place, std::string_view purpose) {
    std::vector<Buffer>& spare = spare_[{bytes, place}];
    if (spare.empty()) spare.push_back(device.allocate(bytes, place, purpose));
    auto taken = std::make_shared<Buffer>(std::move(spare.back()));
    spare.pop_back();
    return Buffer(taken->data(), bytes, [this, taken, place](void*, size_t size) mutable {
      spare_[{size, place}].push_back(std::move(*taken));
    });
  }

 private:
  std::map<std::pair<size_t, MemoryKind>, std::vector<Buffer>> spare_;
};

/// State that all layers of a test program share. Creating a GPU's library handles takes longer
/// than most tests.
struct Shared {
  Backend backend;
  Pool pool;
};

Shared& shared(DataType type) {
  // Never destroyed: at process exit CUDA may shut down first.
  static auto& all = *new std::map<DataType, Shared>;
  Shared& one = all[type];
  if (one.backend.device == nullptr)
    one.backend = layers::cuda::open_library().make_backend(
        {.index = 0,
         .settings = {.precision = type == DataType::kBf16 ? cuda::Precision::kBf16
                                                           : cuda::Precision::kFp32}});
  return one;
}

class SharedDevice final : public Device {
 public:
  explicit SharedDevice(Shared& shared) : device_(*shared.backend.device), pool_(shared.pool) {}

  /// Not zeroed, unlike other devices. Tests fill the memory that they allocate.
  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override {
    if (bytes == 0) return {};
    return pool_.take(device_, bytes, place, purpose);
  }
  size_t available() const override { return device_.available(); }
  bool shares_memory() const override { return device_.shares_memory(); }
  using Device::copy;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    device_.copy(from, to);
  }
  void read(std::span<const std::byte> from, std::span<std::byte> host) override {
    device_.read(from, host);
  }
  void write(std::span<const std::byte> host, std::span<std::byte> to) override {
    device_.write(host, to);
  }
  Event record() override { return device_.record(); }
  Event issue_on_stream(DeviceStream stream, const Event& after,
                        const std::function<void()>& issue) override {
    return device_.issue_on_stream(stream, after, issue);
  }
  void await(const Event& event) override { device_.await(event); }
  int threads() const override { return device_.threads(); }

 private:
  Device& device_;
  Pool& pool_;
};

class SharedFactory final : public layers::LayerFactory {
 public:
  explicit SharedFactory(Shared& shared) : factory_(*shared.backend.factory) {}

  Device& device() override { return factory_.device(); }
  std::unique_ptr<layers::Layer> make(const layers::LayerRequest& request) override {
    return factory_.make(request);
  }
  bool fuses_relu(const layers::Definition& definition) const override {
    return factory_.fuses_relu(definition);
  }
  bool fuses_residual(const layers::Definition& definition) const override {
    return factory_.fuses_residual(definition);
  }
  void add(std::span<const float> values, std::span<float> sums) override {
    factory_.add(values, sums);
  }
  std::unique_ptr<layers::Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return factory_.make_reorder(shape, from, to);
  }
  std::unique_ptr<layers::BatchInput> make_batch_input() override {
    return factory_.make_batch_input();
  }

 private:
  LayerFactory& factory_;
};

class SharedUpdater final : public layers::Updater {
 public:
  explicit SharedUpdater(Shared& shared) : updater_(*shared.backend.updater) {}

  void combine_updates(const std::function<void()>& work) override {
    updater_.combine_updates(work);
  }
  void update(const layers::UpdateForm& form, const layers::UpdateParameters* numbers,
              const layers::UpdateMemory& memory) override {
    updater_.update(form, numbers, memory);
  }
  void track(const layers::Tracking& numbers, std::span<const float> value,
             std::span<const float> sum, std::span<float> next) override {
    updater_.track(numbers, value, sum, next);
  }
  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    updater_.average(rate, average, value, next);
  }
  void swap(std::span<float> a, std::span<float> b) override { updater_.swap(a, b); }
  double squared_norm(std::span<const float> values) override {
    return updater_.squared_norm(values);
  }
  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    updater_.add(a, b, sum);
  }

 private:
  Updater& updater_;
};

}  // namespace

LayerBackend make_layer_backend(int, DataType type) {
  Shared& all = shared(type);
  return {std::make_unique<SharedDevice>(all), std::make_unique<SharedFactory>(all),
          std::make_unique<SharedUpdater>(all)};
}

}  // namespace poseidon::test
