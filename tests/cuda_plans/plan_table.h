#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "layers/cuda/runtime/cudnn_convolution.h"
#include "tests/cuda_plans/convolutions.h"

namespace poseidon::test {

/// The plan that the fixed rule chooses for one pass of a convolution.
struct ChosenPlan {
  std::string layer;
  std::string geometry;
  std::string circumstances;  ///< "H200 tf32 backward data"
  layers::cuda::ConvolutionPlan plan;
  size_t workspace_bytes = 0;  ///< workspace of the product
  size_t tensor_bytes = 0;     ///< total size of the problem's tensors
  bool strict = false;         ///< no factor may be rounded
};

/// A precision: its name, and the settings of its products.
struct NamedPrecision {
  const char* name;
  poseidon::cuda::Precision precision;
  DataType type;
};
inline constexpr NamedPrecision kPrecisions[] = {
    {"fp32", poseidon::cuda::Precision::kFp32, DataType::kFp32},
    {"tf32", poseidon::cuda::Precision::kTf32, DataType::kFp32},
    {"bf16", poseidon::cuda::Precision::kBf16, DataType::kBf16},
};

/// Plans for all passes of all convolutions in all precisions on all GPUs. All plans are
/// deterministic. Throws ConfigError if there is no plan.
std::vector<ChosenPlan> chosen_plans(const Convolutions& convolutions);

/// The first rule for plans that the choice violates; "" if there is none.
std::string fault_of(const ChosenPlan& chosen);

/// The table as text: a line for each geometry, followed by one for each plan.
std::string table_text(const std::vector<ChosenPlan>& plans);

/// The differences of two tables as readable lines; empty if they are equal.
std::vector<std::string> differences(std::string_view recorded, std::string_view made);

}  // namespace poseidon::test
