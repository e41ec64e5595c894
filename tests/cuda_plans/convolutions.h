#pragma once

#include <string>
#include <vector>

#include "layers/convolution.h"
#include "net/network.h"

namespace poseidon::test {

struct NamedConvolution {
  std::string layer;  ///< "alexnet conv1", the first that has this geometry
  const layers::Convolution* definition;
};

/// The convolutions of all networks in configs/, at the batch of the job that has the largest one
/// (32 where none has the network), and of unusual.json, those that deconvolutions are the
/// transposes of included: each geometry once.
class Convolutions {
 public:
  Convolutions();
  const std::vector<NamedConvolution>& all() const { return all_; }

 private:
  std::vector<net::Network> networks_;
  std::vector<NamedConvolution> all_;
};

}  // namespace poseidon::test
