#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/name_list.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// Names in one sentence: "a, b"; after five only how many more there are.
class Listing {
 public:
  void add(std::string entry) { entries_.push_back(std::move(entry)); }
  bool empty() const { return entries_.empty(); }
  std::string text() const { return name_list(entries_); }

 private:
  std::vector<std::string> entries_;
};

struct ExpectedTensor {
  std::string name;
  std::string type;  ///< "F32", ...
  Shape shape;
};

/// The tensors of a network as weights files have them.
std::vector<ExpectedTensor> weights_of(const net::Network& network);

/// Throws ConfigError that names the first tensors of the file that are missing, not expected, or
/// of another form; `owner` is whose they should be. F16 and BF16 are taken for F32.
void expect_tensors(const trainer::SafetensorsFile& file, std::span<const ExpectedTensor> expected,
                    const std::string& owner);

}  // namespace poseidon::importer
