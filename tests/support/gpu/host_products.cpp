#include "tests/support/gpu/host_products.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"

namespace poseidon::test {

namespace {

using layers::Convolution;
using layers::cuda::ConvolutionProblem;
using layers::cuda::MatrixProblem;
using layers::cuda::Product;
using layers::cuda::ProductMemory;
using Pass = ConvolutionProblem::Pass;
using Numbers = std::vector<double>;

/// Workspace sizes of all products. They are no multiple of the alignment, so that a sanitizer
/// detects accesses beyond the workspace.
constexpr size_t kWorkspaceBytes = 1000, kMoreWorkspaceBytes = 2500;

/// A dense array: element count and data type.
struct DenseArray {
  int64_t count = 0;
  DataType type = DataType::kFp32;
  size_t bytes() const { return static_cast<size_t>(count) * bytes_of(type); }
};

Numbers load(const void* from, const DenseArray& matter) {
  const auto count = static_cast<size_t>(matter.count);
  if (matter.type == DataType::kFp32) {
    const auto* numbers = static_cast<const float*>(from);
    return {numbers, numbers + count};
  }
  const auto* numbers = static_cast<const Bf16*>(from);
  Numbers loaded(count);
  for (size_t i = 0; i < count; ++i)
    loaded[i] = static_cast<double>(static_cast<float>(numbers[i]));
  return loaded;
}

void store(const Numbers& numbers, void* to, DataType type) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto value = static_cast<float>(numbers[i]);
    if (type == DataType::kBf16)
      static_cast<Bf16*>(to)[i] = value;
    else
      static_cast<float*>(to)[i] = value;
  }
}

/// A product: sizes and types of its factors and its result, and the computation.
class Computation {
 public:
  virtual ~Computation() = default;
  virtual std::string name() const = 0;
  virtual DenseArray first() const = 0;
  virtual DenseArray second() const = 0;
  virtual DenseArray result() const = 0;
  virtual int64_t bias() const { return 0; }  ///< elements; 0: no bias
  virtual Numbers compute(const Numbers& first, const Numbers& second, const float* bias) const = 0;
};

class HostOperation final : public cuda::Operation {
 public:
  HostOperation(std::shared_ptr<const Computation> computation, size_t workspace_bytes,
                const ProductMemory& memory)
      : computation_(std::move(computation)), workspace_bytes_(workspace_bytes), memory_(memory) {
    check((computation_->bias() > 0) == (memory.bias != nullptr), "a bias where there is one");
  }

  std::string name() const override { return computation_->name(); }

  void visit(cuda::MemoryVisitor& visitor) const override {
    visitor.reads(memory_.first, computation_->first().bytes());
    visitor.reads(memory_.second, computation_->second().bytes());
    if (memory_.bias != nullptr)
      visitor.reads(memory_.bias, static_cast<size_t>(computation_->bias()) * sizeof(float));
    visitor.writes(memory_.workspace, workspace_bytes_);
    visitor.writes(memory_.result, computation_->result().bytes());
  }

  /// Overwrites the workspace first and last, so the result is wrong if the workspace overlaps a
  /// factor or the result.
  void issue(const cuda::Executor&) const override {
    std::memset(memory_.workspace, 0xFF, workspace_bytes_);
    const Numbers first = load(memory_.first, computation_->first());
    const Numbers second = load(memory_.second, computation_->second());
    store(computation_->compute(first, second, memory_.bias), memory_.result,
          computation_->result().type);
    std::memset(memory_.workspace, 0xFF, workspace_bytes_);
  }

 private:
  std::shared_ptr<const Computation> computation_;
  size_t workspace_bytes_;
  ProductMemory memory_;
};

class HostProduct final : public Product {
 public:
  HostProduct(std::shared_ptr<const Computation> computation, std::string name)
      : computation_(std::move(computation)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  size_t workspace_bytes() const override {
    return name_ == HostProducts::kRule ? kWorkspaceBytes : kMoreWorkspaceBytes;
  }
  std::unique_ptr<const cuda::Operation> operation(const ProductMemory& memory) const override {
    return std::make_unique<HostOperation>(computation_, workspace_bytes(), memory);
  }

 private:
  std::shared_ptr<const Computation> computation_;
  std::string name_;
};

class ConvolutionComputation final : public Computation {
 public:
  explicit ConvolutionComputation(const ConvolutionProblem& problem)
      : pass_(problem.pass), geometry_(problem.geometry), type_(problem.type) {}

  std::string name() const override { return "convolution of the host"; }
  DenseArray first() const override { return pass_ == Pass::kForward ? input() : output(); }
  DenseArray second() const override {
    return pass_ == Pass::kBackwardWeights ? input() : weight(type_);
  }
  DenseArray result() const override {
    if (pass_ == Pass::kBackwardWeights) return weight(DataType::kFp32);
    return pass_ == Pass::kForward ? output() : input();
  }

  Numbers compute(const Numbers& first, const Numbers& second, const float*) const override {
    Numbers result(static_cast<size_t>(this->result().count));
    const int64_t depth = depth_of_group();
    for_each_tap([&](int64_t x, int64_t w, int64_t y) {
      if (pass_ == Pass::kForward) {
        const double *in = &first[at(x)], *weight = &second[at(w)];
        double sum = 0;
        for (int64_t c = 0; c < depth; ++c) sum += in[c] * weight[c];
        result[at(y)] += sum;
      } else {
        const bool of_data = pass_ == Pass::kBackwardData;
        double* out = &result[at(of_data ? x : w)];
        const double *factors = &second[at(of_data ? w : x)], gradient = first[at(y)];
        for (int64_t c = 0; c < depth; ++c) out[c] += gradient * factors[c];
      }
    });
    return result;
  }

 private:
  static size_t at(int64_t index) { return static_cast<size_t>(index); }

  DenseArray input() const { return {geometry_.input.count(), type_}; }
  DenseArray output() const { return {geometry_.output.count(), type_}; }
  DenseArray weight(DataType type) const {
    return {geometry_.outputs * depth_of_group() * geometry_.kernel[0] * geometry_.kernel[1], type};
  }
  int64_t depth_of_group() const { return geometry_.input.channels() / geometry_.groups; }

  /// Calls use(x, w, y) for each output and each kernel position that lies in the image. x: index
  /// of the group's first input channel at that pixel. w: index of the first weight for it. y:
  /// index of the output.
  template <class Use>
  void for_each_tap(const Use& use) const {
    const Shape &in = geometry_.input, &out = geometry_.output;
    for (int64_t n = 0; n < out.samples(); ++n)
      for (int64_t i = 0; i < out.height(); ++i)
        for (int64_t j = 0; j < out.width(); ++j)
          for (int64_t r = 0; r < geometry_.kernel[0]; ++r)
            for (int64_t s = 0; s < geometry_.kernel[1]; ++s) {
              const int64_t h = row_of(0, i, r), w = row_of(1, j, s);
              if (h < 0 || h >= in.height() || w < 0 || w >= in.width()) continue;
              for_each_output((n * in.height() + h) * in.width() + w, r * geometry_.kernel[1] + s,
                              (n * out.height() + i) * out.width() + j, use);
            }
  }

  /// The row (axis 0) or column (axis 1) of the image for kernel position `tap`.
  int64_t row_of(size_t axis, int64_t output, int64_t tap) const {
    return output * geometry_.stride[axis] - geometry_.padding.before[axis] +
           tap * geometry_.dilation[axis];
  }

  template <class Use>
  void for_each_output(int64_t pixel, int64_t tap, int64_t position, const Use& use) const {
    const int64_t depth = depth_of_group(), taps = geometry_.kernel[0] * geometry_.kernel[1];
    const int64_t outputs_of_group = geometry_.outputs / geometry_.groups;
    for (int64_t k = 0; k < geometry_.outputs; ++k)
      use(pixel * geometry_.input.channels() + k / outputs_of_group * depth,
          (k * taps + tap) * depth, position * geometry_.outputs + k);
  }

  Pass pass_;
  const Convolution& geometry_;
  DataType type_;
};

class MatrixComputation final : public Computation {
 public:
  explicit MatrixComputation(const MatrixProblem& problem) : problem_(problem) {}

  std::string name() const override { return "matrix product of the host"; }
  DenseArray first() const override { return {problem_.rows * problem_.depth}; }
  DenseArray second() const override { return {problem_.depth * problem_.columns}; }
  DenseArray result() const override { return {problem_.rows * problem_.columns}; }
  int64_t bias() const override { return problem_.bias ? problem_.columns : 0; }

  Numbers compute(const Numbers& first, const Numbers& second, const float* bias) const override {
    const auto rows = static_cast<size_t>(problem_.rows),
               depth = static_cast<size_t>(problem_.depth),
               columns = static_cast<size_t>(problem_.columns);
    const Numbers left = problem_.transpose_first ? transposed(first, depth, rows) : first;
    const Numbers right = problem_.transpose_second ? transposed(second, columns, depth) : second;
    Numbers result(rows * columns);
    for (size_t i = 0; i < rows; ++i) {
      double* row = &result[i * columns];
      for (size_t k = 0; k < depth; ++k)
        for (size_t j = 0; j < columns; ++j) row[j] += left[i * depth + k] * right[k * columns + j];
      for (size_t j = 0; j < columns; ++j) {
        if (problem_.bias) row[j] += static_cast<double>(bias[j]);
        if (problem_.relu && row[j] < 0) row[j] = 0;
      }
    }
    return result;
  }

 private:
  static Numbers transposed(const Numbers& matrix, size_t rows, size_t columns) {
    Numbers turned(matrix.size());
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = matrix[i * columns + j];
    return turned;
  }

  MatrixProblem problem_;
};

}  // namespace

std::unique_ptr<Product> HostProducts::plan(const ConvolutionProblem& problem,
                                            std::string_view name) {
  if (!name.empty() && name != kRule && name != kRoomy)
    throw ConfigError(text("[convolution '", problem.geometry.name, "'] the plan \"", name,
                           "\" is chosen, which the host does not have"));
  return std::make_unique<HostProduct>(std::make_shared<ConvolutionComputation>(problem),
                                       name.empty() ? kRule : std::string(name));
}

std::unique_ptr<Product> HostProducts::plan(const MatrixProblem& problem) {
  return std::make_unique<HostProduct>(std::make_shared<MatrixComputation>(problem), kRule);
}

}  // namespace poseidon::test
