#pragma once

#include <filesystem>
#include <vector>

#include "tests/support/layer_runner.h"

namespace poseidon::test {

/// What a layer computes according to PyTorch: one file that tests/reference/make_golden.py wrote
/// (the format stands there).
struct Golden {
  std::string name;
  LayerCase layer;
  LayerInputs values;
  LayerResults expected;
  std::vector<int32_t> labels;  ///< layer.step.labels must point at it
};

/// All golden files, by name.
std::vector<std::filesystem::path> golden_files();
Golden read_golden(const std::filesystem::path& file);

}  // namespace poseidon::test
