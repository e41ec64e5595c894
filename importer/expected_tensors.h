#pragma once

#include <span>
#include <string>
#include <vector>

#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// Names in one sentence: "a, b".
class Listing {
 public:
  void add(const std::string& entry) { text_ += (text_.empty() ? "" : ", ") + entry; }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct ExpectedTensor {
  std::string name;
  std::string type;  ///< "F32", ...
  Shape shape;
};

/// The tensors of a network as weights files have them.
std::vector<ExpectedTensor> weights_of(const net::Network& network);

/// Throws ConfigError that names every tensor of the file that is missing, not expected, or of
/// another form; `owner` is whose they should be.
void expect_tensors(const trainer::SafetensorsFile& file, std::span<const ExpectedTensor> expected,
                    const std::string& owner);

}  // namespace poseidon::importer
