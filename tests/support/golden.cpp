#include "tests/support/golden.h"
#include "tests/support/folders.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace poseidon::test {

namespace {

struct GoldenTensor {
  Shape shape;
  Values values;
};

GoldenTensor read_tensor(std::istringstream& line) {
  GoldenTensor tensor;
  std::string extents;
  line >> extents;
  std::replace(extents.begin(), extents.end(), 'x', ' ');
  std::istringstream numbers(extents);
  std::vector<int64_t> shape;
  for (int64_t extent; numbers >> extent;) shape.push_back(extent);
  REQUIRE((shape.size() >= 1 && shape.size() <= 4));
  if (shape.size() == 1) tensor.shape = {shape[0]};
  if (shape.size() == 2) tensor.shape = {shape[0], shape[1]};
  if (shape.size() == 4) tensor.shape = {shape[0], shape[1], shape[2], shape[3]};
  for (std::string word; line >> word;) tensor.values.push_back(std::stof(word));
  REQUIRE(static_cast<int64_t>(tensor.values.size()) == tensor.shape.count());
  return tensor;
}

/// The tensors `name`0, `name`1, ... up to the first missing number.
std::vector<Values> numbered(const std::map<std::string, GoldenTensor>& tensors,
                             const std::string& name) {
  std::vector<Values> found;
  while (tensors.contains(name + std::to_string(found.size())))
    found.push_back(tensors.at(name + std::to_string(found.size())).values);
  return found;
}

}  // namespace

std::vector<std::filesystem::path> golden_files() {
  const char* given = std::getenv("POSEIDON_GOLDEN");
  const std::filesystem::path folder =
      given != nullptr ? given : test::source_folder() + "/tests/reference/golden";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Golden read_golden(const std::filesystem::path& file) {
  Golden golden;
  golden.name = file.stem().string();
  std::map<std::string, GoldenTensor> tensors;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    if (name == "json") {
      golden.layer.json = Json::parse(text.substr(name.size()));
    } else if (name == "relu") {
      line >> golden.layer.relu.emplace();
    } else if (name == "residual") {
      golden.layer.residual = true;
    } else if (name == "labels") {
      for (int32_t label; line >> label;) golden.labels.push_back(label);
    } else {
      tensors[name] = read_tensor(line);
    }
  }
  golden.values.inputs = numbered(tensors, "input");
  for (size_t i = 0; i < golden.values.inputs.size(); ++i)
    golden.layer.inputs.push_back(tensors.at("input" + std::to_string(i)).shape);
  golden.values.parameters = numbered(tensors, "parameter");
  golden.expected = {.output = tensors.at("output").values,
                     .input_gradients = numbered(tensors, "input_gradient"),
                     .parameter_gradients = numbered(tensors, "parameter_gradient"),
                     .statistics = numbered(tensors, "statistic")};
  for (const Values& statistic : golden.expected.statistics)
    golden.values.statistics.emplace_back(statistic.size(), 1.0F);
  if (tensors.contains("gradient")) golden.values.output_gradients = {tensors["gradient"].values};
  return golden;
}

}  // namespace poseidon::test
