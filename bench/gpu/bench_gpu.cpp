// Measures the limits of a GPU (copies, products, kernel launches) and its memory-bound kernels.
// The rate of each kernel is compared with the bandwidth of a copy. Prints one JSON object.
//   bench_gpu [--cpu] [--small]      --cpu: the same calls on the CPU, to try this program
//                                    --small: small tensors and short rounds, to try this program
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <vector>

#include "core/json.h"
#include "layers/cpu/backend.h"
#include "layers/cuda/opener.h"
#include "layers/registry.h"

using namespace poseidon;
using layers::Backend;

namespace {

struct Options {
  bool cpu = false, small = false;
};

/// One device at one precision, and memory that this object owns.
class Bench {
 public:
  Bench(const Options& options, cuda::Precision precision)
      : backend_(options.cpu ? layers::cpu::make_cpu_backend(0, type_of(precision))
                             : layers::cuda::open_library().make_backend(
                                   {.index = 0, .settings = {.precision = precision}})),
        type_(type_of(precision)),
        long_enough_(options.small ? 0.001 : 0.03) {}

  static DataType type_of(cuda::Precision precision) {
    return precision == cuda::Precision::kBf16 ? DataType::kBf16 : DataType::kFp32;
  }

  Backend& backend() { return backend_; }
  DataType type() const { return type_; }

  /// Allocates memory and fills it with ones of `type`. The values hardly affect the time of
  /// kernels, but they affect the power consumption of products.
  std::span<float> take(size_t bytes, MemoryKind place = MemoryKind::kDevice, DataType type = {}) {
    buffers_.push_back(
        backend_.device->allocate(std::max<size_t>(bytes, 64), place, "a benchmark"));
    const auto there = buffers_.back().as<std::byte>();
    const std::span<const std::byte> ones = ones_of(type).as<std::byte>();
    for (size_t at = 0; at < there.size(); at += ones.size()) {
      const size_t count = std::min(ones.size(), there.size() - at);
      backend_.device->copy(ones.first(count), there.subspan(at, count));
    }
    return buffers_.back().as<float>();
  }
  void forget() { buffers_.clear(); }

  /// Seconds of one call: the median of five rounds. A round has enough calls for a reliable time.
  template <class Work>
  double seconds_of(const Work& work) {
    const auto round = [&](int calls) {
      backend_.device->record().wait();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) work();
      backend_.device->record().wait();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    int calls = 1;
    while (round(calls) < long_enough_ && calls < (1 << 16)) calls *= 2;
    std::vector<double> rounds;
    for (int i = 0; i < 5; ++i) rounds.push_back(round(calls) / calls);
    std::ranges::sort(rounds);
    return rounds[2];
  }

 private:
  /// A buffer of ones in the device's memory. The host writes it only once, because writes from the
  /// host are slow.
  Buffer& ones_of(DataType type) {
    Buffer& buffer = ones_[type];
    if (buffer.bytes() > 0) return buffer;
    buffer = backend_.device->allocate(kOnesBytes, MemoryKind::kDevice, "a benchmark");
    std::vector<uint16_t> ones(kOnesBytes / 2, 0x3F80);
    if (type == DataType::kFp32)
      for (size_t i = 0; i < ones.size(); i += 2) ones[i] = 0;
    backend_.device->write(std::as_bytes(std::span(ones)), buffer.as<std::byte>());
    return buffer;
  }

  static constexpr size_t kOnesBytes = size_t{16} << 20;

  Backend backend_;
  DataType type_;
  double long_enough_;
  std::map<DataType, Buffer> ones_;
  std::vector<Buffer> buffers_;
};

double copy_rate(Bench& bench, size_t bytes, MemoryKind from_place, MemoryKind to_place) {
  const std::span<float> from = bench.take(bytes, from_place), to = bench.take(bytes, to_place);
  const double seconds = bench.seconds_of([&] { bench.backend().device->copy(from, to); });
  bench.forget();
  return static_cast<double>(bytes) / seconds / 1e9;
}

Json copies(Bench& bench, bool small) {
  const size_t large = size_t{1} << (small ? 22 : 29);
  Json result;
  // A copy within the device reads and writes all bytes, so they count twice.
  result["device_gbs"] = 2 * copy_rate(bench, large, MemoryKind::kDevice, MemoryKind::kDevice);
  result["to_device_gbs"] = copy_rate(bench, large, MemoryKind::kStaging, MemoryKind::kDevice);
  result["from_device_gbs"] = copy_rate(bench, large, MemoryKind::kDevice, MemoryKind::kStaging);
  return result;
}

/// A layer with its memory for one call.
class Call {
 public:
  Call(Bench& bench, const Json& json, const std::vector<Shape>& inputs,
       std::optional<float> relu = {}) {
    definition_ = layers::make_definition(json.at("type").get<std::string>());
    Json fields = json;
    fields.erase("type");
    definition_->name = "measured";
    read_fields(fields, {"bench_gpu", ""}, [&](Fields& f) { definition_->describe(f); });
    const Shape output = definition_->infer(inputs);
    std::vector<Format> formats;
    for (const Shape& shape : inputs)
      formats.push_back({shape.rank() == 4 ? Layout::kChannelsLast : Layout::kPlain, bench.type()});
    layer_ = bench.backend().factory->make(
        {.definition = *definition_,
         .input_shapes = inputs,
         .output_shape = output,
         .input_formats = formats,
         .input_needs_gradient = std::vector<bool>(inputs.size(), true),
         .relu = relu,
         .choice = {}});
    bind(bench, inputs, output);
  }

  void forward() { layer_->forward(step_, memory_); }
  void backward() { layer_->backward(step_, memory_); }
  const layers::Definition& definition() const { return *definition_; }
  double input_bytes() const { return input_bytes_; }
  double output_bytes() const { return output_bytes_; }

 private:
  void bind(Bench& bench, const std::vector<Shape>& inputs, const Shape& output) {
    const layers::Needs& needs = layer_->needs();
    const auto tensor = [&](const Shape& shape, const Format& format) {
      const size_t bytes = stored_bytes(shape, format);
      return Tensor{bench.take(bytes, MemoryKind::kDevice, format.type).data(), shape, format};
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      memory_.inputs.push_back(tensor(inputs[i], needs.input_formats[i]));
      memory_.input_gradients.push_back(tensor(inputs[i], needs.input_formats[i]));
      input_bytes_ += static_cast<double>(stored_bytes(inputs[i], needs.input_formats[i]));
    }
    memory_.output = tensor(output, needs.output_format);
    memory_.output_gradients = {tensor(output, needs.output_format)};
    output_bytes_ = static_cast<double>(stored_bytes(output, needs.output_format));
    const auto floats = [&](int64_t count) {
      return bench
          .take(static_cast<size_t>(count) * sizeof(float), MemoryKind::kDevice, DataType::kFp32)
          .data();
    };
    for (size_t i = 0; i < definition_->parameters().size(); ++i) {
      const int64_t count = layer_->packed_count(static_cast<int>(i));
      memory_.parameters.push_back({.value = floats(count), .gradient = floats(count)});
      if (layer_->reads_rounded(static_cast<int>(i)))
        memory_.parameters.back().rounded =
            reinterpret_cast<const Bf16*>(bench
                                              .take(static_cast<size_t>(count) * sizeof(Bf16),
                                                    MemoryKind::kDevice, DataType::kBf16)
                                              .data());
    }
    for (const auto& statistic : definition_->statistics())
      memory_.statistics.push_back(
          {.value = floats(statistic.shape.count()), .gradient = floats(statistic.shape.count())});
    const auto bytes = [&](size_t count) {
      return reinterpret_cast<std::byte*>(bench.take(count).data());
    };
    step_.numbers =
        reinterpret_cast<const layers::StepParameters*>(bytes(sizeof(layers::StepParameters)));
    memory_.workspace = bytes(needs.workspace_bytes);
    memory_.scratch = bytes(needs.scratch_bytes);
  }

  std::unique_ptr<layers::Definition> definition_;
  std::unique_ptr<layers::Layer> layer_;
  layers::StepContext step_;
  layers::Bindings memory_;
  double input_bytes_ = 0, output_bytes_ = 0;
};

/// A layer whose kernels are memory-bound. `forward`, `backward`: the minimum number of reads and
/// writes of tensors in the pass. The first number is for the input and its gradient, the second
/// for the output and its gradient.
struct Bounded {
  const char* name;
  Json layer;
  int inputs;
  std::array<double, 2> forward, backward;
};

/// The measured layers, with the memory that they must access. For example, batch norm's forward
/// reads its input twice, because it needs the mean before it can write.
const std::vector<Bounded>& bounded_layers() {
  static const std::vector<Bounded> all = {
      {"relu", {{"type", "relu"}}, 1, {1, 1}, {1, 2}},
      {"sigmoid", {{"type", "sigmoid"}}, 1, {1, 1}, {1, 2}},
      {"tanh", {{"type", "tanh"}}, 1, {1, 1}, {1, 2}},
      {"elu", {{"type", "elu"}}, 1, {1, 1}, {1, 2}},
      {"swish", {{"type", "swish"}}, 1, {1, 1}, {2, 1}},
      {"prelu", {{"type", "prelu"}}, 1, {1, 1}, {2, 1}},
      {"scale", {{"type", "scale"}, {"bias", true}}, 1, {1, 1}, {2, 1}},
      {"mvn", {{"type", "mvn"}}, 1, {2, 1}, {3, 2}},
      {"dropout", {{"type", "dropout"}}, 1, {1, 1}, {1, 1}},
      {"eltwise", {{"type", "eltwise"}, {"operation", "sum"}}, 2, {1, 1}, {1, 1}},
      {"concat", {{"type", "concat"}}, 2, {1, 1}, {1, 1}},
      {"batch_norm", {{"type", "batch_norm"}}, 1, {2, 1}, {3, 2}},
      {"lrn", {{"type", "lrn"}, {"size", 5}}, 1, {1, 1}, {2, 1}},
      {"pooling max", {{"type", "pooling"}, {"kernel", 3}, {"stride", 2}}, 1, {1, 1}, {1, 1}},
      {"pooling average",
       {{"type", "pooling"}, {"method", "average"}, {"kernel", 3}, {"stride", 2}},
       1,
       {1, 1},
       {1, 1}},
  };
  return all;
}

Json measured(const std::string& name, const char* pass, double seconds, double bytes,
              double copy_gbs) {
  const double rate = bytes / seconds / 1e9;
  return {{"name", name},
          {"pass", pass},
          {"ms", 1e3 * seconds},
          {"gbs", rate},
          {"of_copy", rate / copy_gbs}};
}

void measure_bounded(Bench& bench, const Bounded& one, const Shape& shape, double copy_gbs,
                     Json& rows) {
  Call call(bench, one.layer, std::vector<Shape>(static_cast<size_t>(one.inputs), shape));
  const auto bytes = [&](const std::array<double, 2>& times) {
    return times[0] * call.input_bytes() + times[1] * call.output_bytes();
  };
  rows.push_back(measured(one.name, "forward", bench.seconds_of([&] { call.forward(); }),
                          bytes(one.forward), copy_gbs));
  rows.push_back(measured(one.name, "backward", bench.seconds_of([&] { call.backward(); }),
                          bytes(one.backward), copy_gbs));
}

void measure_update(Bench& bench, int64_t count, double copy_gbs, Json& rows) {
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  const auto tensor = [&] { return bench.take(bytes, MemoryKind::kDevice, DataType::kFp32); };
  const std::span<float> value = tensor(), gradient = tensor(), velocity = tensor();
  const layers::UpdateParameters numbers{.learning_rate = 1e-6F, .momentum = 0.9F};
  const std::span<std::byte> there = std::as_writable_bytes(bench.take(sizeof numbers));
  bench.backend().device->write(std::as_bytes(std::span(&numbers, 1)), there.first(sizeof numbers));
  const auto* in_memory = reinterpret_cast<const layers::UpdateParameters*>(there.data());
  layers::UpdateMemory memory{.value = value,
                              .gradient = gradient,
                              .state = {velocity, {}},
                              .new_value = value,
                              .new_state = {velocity, {}}};
  layers::Updater& updater = *bench.backend().updater;
  rows.push_back(measured("update sgd", "update",
                          bench.seconds_of([&] { updater.update({}, in_memory, memory); }),
                          5.0 * static_cast<double>(bytes), copy_gbs));
  rows.push_back(measured("sum", "update",
                          bench.seconds_of([&] { updater.add(value, gradient, value); }),
                          3.0 * static_cast<double>(bytes), copy_gbs));
}

/// Runs `work`. If it throws, adds a row with the error instead, so that the other cases still run.
template <class Work>
void row_of(Json& rows, const std::string& name, const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    rows.push_back({{"name", name}, {"error", error.what()}});
  }
}

Json kernels(Bench& bench, bool small, double copy_gbs) {
  Json rows = Json::array();
  const Shape shape = small ? Shape{2, 64, 8, 8} : Shape{64, 64, 112, 112};
  for (const Bounded& one : bounded_layers()) {
    row_of(rows, one.name, [&] { measure_bounded(bench, one, shape, copy_gbs, rows); });
    bench.forget();
  }
  if (bench.type() == DataType::kFp32)
    row_of(rows, "update",
           [&] { measure_update(bench, small ? 1 << 12 : 1 << 26, copy_gbs, rows); });
  bench.forget();
  return rows;
}

struct Product {
  const char* name;
  Json layer;
  Shape input, small;
};

Json products(Bench& bench, bool small) {
  const std::vector<Product> all = {
      {"matrix 8192", {{"type", "linear"}, {"outputs", 8192}}, {8192, 8192}, {32, 64}},
      {"convolution 3x3",
       {{"type", "convolution"}, {"outputs", 256}, {"kernel", 3}, {"padding", 1}},
       {256, 256, 28, 28},
       {1, 16, 6, 6}},
      {"convolution 1x1",
       {{"type", "convolution"}, {"outputs", 1024}, {"kernel", 1}},
       {256, 256, 28, 28},
       {1, 16, 6, 6}},
  };
  Json rows = Json::array();
  for (const Product& one : all) {
    row_of(rows, one.name, [&] {
      Call call(bench, one.layer, {small ? one.small : one.input});
      const double flops = 2.0 * static_cast<double>(call.definition().multiply_adds());
      const double forward = bench.seconds_of([&] { call.forward(); });
      const double backward = bench.seconds_of([&] { call.backward(); });
      rows.push_back({{"name", one.name},
                      {"forward_tflops", flops / forward / 1e12},
                      {"backward_tflops", 2 * flops / backward / 1e12}});
    });
    bench.forget();
  }
  return rows;
}

/// Time per launch of a kernel with almost no work, in a sequence of launches.
double launch_microseconds(Bench& bench) {
  const std::span<float> few = bench.take(256);
  const double seconds = bench.seconds_of([&] { bench.backend().updater->add(few, few, few); });
  bench.forget();
  return 1e6 * seconds;
}

void measure_precision(const Options& options, const char* name, cuda::Precision precision,
                       Json& result) {
  Bench bench(options, precision);
  if (precision == cuda::Precision::kFp32) {
    result["copies"] = copies(bench, options.small);
    result["launch_us"] = launch_microseconds(bench);
  }
  result["products"][name] = products(bench, options.small);
  if (precision != cuda::Precision::kTf32)
    result["kernels"][name] =
        kernels(bench, options.small, result["copies"]["device_gbs"].get<double>());
}

/// If the device fails, the result contains the error, and the values measured before.
Json measure(const Options& options) {
  Json result{{"device", options.cpu ? "cpu" : "cuda"}};
  try {
    for (const auto& [name, precision] :
         {std::pair("fp32", cuda::Precision::kFp32), std::pair("bf16", cuda::Precision::kBf16),
          std::pair("tf32", cuda::Precision::kTf32)})
      measure_precision(options, name, precision, result);
  } catch (const RunError& error) {
    result["error"] = error.what();
  }
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    options.cpu |= std::string_view(arguments[i]) == "--cpu";
    options.small |= std::string_view(arguments[i]) == "--small";
  }
  try {
    const Json result = measure(options);
    std::cout << result.dump() << '\n';
    return result.contains("error") ? 1 : 0;
  } catch (const ConfigError& error) {
    std::cerr << "bench_gpu: cannot measure: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bench_gpu: " << error.what() << '\n';
    return 1;
  }
}
