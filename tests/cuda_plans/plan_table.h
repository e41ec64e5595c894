#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "layers/cuda/runtime/cudnn_convolution.h"
#include "tests/cuda_plans/convolutions.h"

namespace poseidon::test {

/// One choice of the fixed rule.
struct ChosenPlan {
  std::string layer;
  std::string geometry;
  std::string circumstances;  ///< "H200 tf32 backward data"
  layers::cuda::ConvolutionPlan plan;
  size_t workspace_bytes = 0;  ///< of the product
  size_t tensor_bytes = 0;     ///< what the problem's tensors take
  bool strict = false;         ///< no factor may be rounded
};

/// How convolutions are planned: the precision's name, and what it says of products.
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

/// Plans all passes of all convolutions in all precisions on all GPUs, deterministic. Throws
/// ConfigError where there is no plan.
std::vector<ChosenPlan> chosen_plans(const Convolutions& convolutions);

/// What is wrong with it by the rules that plans must follow; "" where nothing is.
std::string fault_of(const ChosenPlan& chosen);

/// The table as text: a line for each geometry, below it one for each plan.
std::string table_text(const std::vector<ChosenPlan>& plans);

/// What differs between two tables, line by line, for people; empty where they are equal.
std::vector<std::string> differences(std::string_view recorded, std::string_view made);

}  // namespace poseidon::test
