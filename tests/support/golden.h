#pragma once

#include <filesystem>
#include <vector>

#include "tests/support/layer_runner.h"

namespace poseidon::test {

/// Expected results of a layer, computed by PyTorch: one file that tests/reference/make_golden.py
/// wrote. That script documents the format.
struct Golden {
  std::string name;
  LayerCase layer;
  LayerInputs values;
  LayerResults expected;
  std::vector<int32_t> labels;  ///< the caller makes layer.step.labels point here
};

/// All golden files, sorted by path.
std::vector<std::filesystem::path> golden_files();
Golden read_golden(const std::filesystem::path& file);

}  // namespace poseidon::test
