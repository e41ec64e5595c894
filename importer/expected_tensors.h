#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/name_list.h"
#include "net/network.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

/// A list of names for a message. At most five names are shown: "a, b, c, d, e and 117 more".
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
  std::string type;  ///< safetensors type, such as "F32"
  Shape shape;
};

/// Returns the tensors of a network, with their names in weights files.
std::vector<ExpectedTensor> weights_of(const net::Network& network);

/// Throws ConfigError unless the file has exactly the expected tensors. The message names tensors
/// that are missing, unexpected, or different in type or shape. F16 and BF16 are accepted as F32.
/// `owner` describes the expected network in the message.
void expect_tensors(const trainer::SafetensorsFile& file, std::span<const ExpectedTensor> expected,
                    const std::string& owner);

}  // namespace poseidon::importer
