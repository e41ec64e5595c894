#include "tests/support/guarded_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "core/mutex.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"

namespace poseidon::testing {

namespace {

/// Memory pages that are accessible only while an operation of the device is active. Thread-safe.
class AccessGuard {
 public:
  Buffer take(size_t bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t rounded = std::max(page, (bytes + page - 1) / page * page);
    void* memory = ::mmap(nullptr, rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "a test has memory");
    MutexLock lock(mutex_);
    check(inside_ == 0, "memory is taken from outside");
    pages_[memory] = rounded;
    return Buffer(memory, bytes, [this](void* data, size_t) { release(data); });
  }

  void enter() {
    MutexLock lock(mutex_);
    if (inside_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void leave() {
    MutexLock lock(mutex_);
    if (--inside_ == 0) protect(PROT_NONE);
  }

 private:
  void release(void* data) {
    MutexLock lock(mutex_);
    ::munmap(data, pages_.at(data));
    pages_.erase(data);
  }
  void protect(int rights) REQUIRES(mutex_) {
    for (const auto& [memory, bytes] : pages_)
      check(::mprotect(memory, bytes, rights) == 0, "pages can be protected");
  }

  Mutex mutex_;
  std::map<void*, size_t> pages_ GUARDED_BY(mutex_);
  int inside_ GUARDED_BY(mutex_) = 0;
};

class Inside {
 public:
  explicit Inside(AccessGuard& guard) : guard_(guard) { guard_.enter(); }
  ~Inside() { guard_.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  AccessGuard& guard_;
};

class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(int threads) : cpu_(threads) {}

  cpu::CpuDevice& cpu() { return cpu_; }
  AccessGuard& guard() { return guard_; }

  Buffer allocate(size_t bytes, MemoryKind place, std::string_view purpose) override {
    return place == MemoryKind::kStaging ? Buffer(bytes, purpose) : guard_.take(bytes);
  }
  size_t available() const override { return cpu_.available(); }
  bool shares_memory() const override { return false; }
  using Device::copy;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    const Inside inside(guard_);
    cpu_.copy(from, to);
  }
  void read(std::span<const std::byte> from, std::span<std::byte> host) override {
    const Inside inside(guard_);
    cpu_.read(from, host);
  }
  void write(std::span<const std::byte> host, std::span<std::byte> to) override {
    const Inside inside(guard_);
    cpu_.write(host, to);
  }
  Event record() override { return {}; }
  int threads() const override { return cpu_.threads(); }

 private:
  cpu::CpuDevice cpu_;
  AccessGuard guard_;
};

class GuardedLayer final : public layers::Layer {
 public:
  GuardedLayer(std::unique_ptr<Layer> layer, AccessGuard& guard)
      : layer_(std::move(layer)), guard_(guard) {
    needs_ = layer_->needs();
    choice_ = layer_->choice();
    warning_ = layer_->warning();
  }

  std::vector<layers::AlgorithmChoice> alternatives() const override {
    return layer_->alternatives();
  }
  void forward(const layers::StepContext& step, const layers::Bindings& memory) override {
    const Inside inside(guard_);
    layer_->forward(step, memory);
  }
  void backward(const layers::StepContext& step, const layers::Bindings& memory) override {
    const Inside inside(guard_);
    layer_->backward(step, memory);
  }
  void write_factors(const layers::Bindings& memory, const layers::FactorMemory& factors) override {
    const Inside inside(guard_);
    layer_->write_factors(memory, factors);
  }
  void rebuild(const layers::FactorMemory& factors, const layers::Bindings& memory,
               const layers::GradientSink* sink) override {
    const Inside inside(guard_);
    layer_->rebuild(factors, memory, sink);
  }
  int64_t packed_count(int index) const override { return layer_->packed_count(index); }
  void pack(int index, const float* canonical, float* packed) const override {
    const Inside inside(guard_);
    layer_->pack(index, canonical, packed);
  }
  void unpack(int index, const float* packed, float* canonical) const override {
    const Inside inside(guard_);
    layer_->unpack(index, packed, canonical);
  }
  void pack_gradient(int index, const float* canonical, const layers::Bindings& memory,
                     const layers::GradientSink& sink) const override {
    const Inside inside(guard_);
    layer_->pack_gradient(index, canonical, memory, sink);
  }
  bool packed_is_canonical(int index) const override { return layer_->packed_is_canonical(index); }
  std::string packed_order(int index) const override { return layer_->packed_order(index); }

 private:
  std::unique_ptr<Layer> layer_;
  AccessGuard& guard_;
};

class GuardedFactory final : public layers::LayerFactory {
 public:
  explicit GuardedFactory(GuardedDevice& device)
      : device_(device), cpu_(layers::cpu::make_cpu_factory(device.cpu())) {}

  Device& device() override { return device_; }
  std::unique_ptr<layers::Layer> make(const layers::LayerRequest& request) override {
    return std::make_unique<GuardedLayer>(cpu_->make(request), device_.guard());
  }
  bool fuses_relu(const layers::Definition& definition) const override {
    return cpu_->fuses_relu(definition);
  }
  bool fuses_residual(const layers::Definition& definition) const override {
    return cpu_->fuses_residual(definition);
  }
  void add(std::span<const float> values, std::span<float> sums) override {
    const Inside inside(device_.guard());
    cpu_->add(values, sums);
  }
  std::unique_ptr<layers::Layer> make_reorder(const Shape& shape, Format from, Format to) override {
    return std::make_unique<GuardedLayer>(cpu_->make_reorder(shape, from, to), device_.guard());
  }

 private:
  GuardedDevice& device_;
  std::unique_ptr<LayerFactory> cpu_;
};

class GuardedUpdater final : public layers::Updater {
 public:
  explicit GuardedUpdater(GuardedDevice& device)
      : guard_(device.guard()), cpu_(layers::cpu::make_cpu_updater(device.cpu().team())) {}

  void update(const layers::UpdateForm& form, const layers::UpdateParameters* numbers,
              const layers::UpdateMemory& memory) override {
    const Inside inside(guard_);
    cpu_->update(form, numbers, memory);
  }
  void track(const layers::Tracking& numbers, std::span<const float> value,
             std::span<const float> sum, std::span<float> next) override {
    const Inside inside(guard_);
    cpu_->track(numbers, value, sum, next);
  }
  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    const Inside inside(guard_);
    cpu_->average(rate, average, value, next);
  }
  void swap(std::span<float> a, std::span<float> b) override {
    const Inside inside(guard_);
    cpu_->swap(a, b);
  }
  double squared_norm(std::span<const float> values) override {
    const Inside inside(guard_);
    return cpu_->squared_norm(values);
  }
  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    const Inside inside(guard_);
    cpu_->add(a, b, sum);
  }

 private:
  AccessGuard& guard_;
  std::unique_ptr<Updater> cpu_;
};

}  // namespace

layers::Backend make_guarded_backend(int threads) {
  auto device = std::make_unique<GuardedDevice>(threads);
  auto factory = std::make_unique<GuardedFactory>(*device);
  auto updater = std::make_unique<GuardedUpdater>(*device);
  return {std::move(device), std::move(factory), std::move(updater)};
}

}  // namespace poseidon::testing
