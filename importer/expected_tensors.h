#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/name_list.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// A list of names for a message: "a, b". After five names it only states the number of further
/// ones.
class NameListing {
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

/// Returns the tensors of a network, with their names in weights files.
std::vector<ExpectedTensor> weights_of(const net::Network& network);

/// Throws ConfigError that names the first tensors of the file that are missing, unexpected, or
/// different in type or shape. `owner` describes the expected owner of the tensors. F16 and BF16
/// are accepted as F32.
void expect_tensors(const trainer::SafetensorsFile& file, std::span<const ExpectedTensor> expected,
                    const std::string& owner);

}  // namespace poseidon::importer
