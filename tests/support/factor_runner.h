#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/json.h"
#include "layers/layer.h"
#include "tests/support/device_memory.h"
#include "tests/support/layer_backend.h"

namespace poseidon::test {

/// A layer that writes factors, and the batches that a test gives it.
struct FactoredCase {
  Json json;    ///< as in a network file, "type" included
  Shape input;  ///< of one batch
  std::optional<float> relu = std::nullopt;
  DataType type = DataType::kFp32;
  int threads = 1;
  int64_t batches = 2;
  size_t contributions = 1;        ///< output gradients of each batch
  bool with_sink = false;          ///< read the gradients that a sink receives
  Layout layout = Layout::kPlain;  ///< of the layer's producer
};

/// The values that the layer wrote.
struct FactoredResults {
  Values deltas, activations;  ///< of all batches
  std::vector<Values> inputs;  ///< that the test gave, canonical, by batch
  std::vector<Values>
      output_gradients;  ///< that the test gave, canonical: the first one of each batch
  std::vector<Values> input_gradients;      ///< canonical, by batch
  std::vector<Values> parameter_gradients;  ///< rebuilt, canonical
};

/// Runs the batches on a layer, and rebuilds the gradients from the stacked factors.
FactoredResults run_with_factors(const FactoredCase& factored_case, LayerBackendMaker backend);

}  // namespace poseidon::test
