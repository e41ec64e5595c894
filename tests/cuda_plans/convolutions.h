#pragma once

#include <string>
#include <vector>

#include "layers/convolution.h"
#include "net/network.h"

namespace poseidon::test {

struct NamedConvolution {
  std::string layer;  ///< "alexnet conv1": the first layer with this geometry
  const layers::Convolution* definition;
};

/// The convolutions of all networks in configs/ and of unusual.json, including those that
/// deconvolutions transpose. Each geometry appears once. The batch is that of the job with the
/// largest one; 32 if no job uses the network.
class Convolutions {
 public:
  Convolutions();
  const std::vector<NamedConvolution>& all() const { return all_; }

 private:
  std::vector<net::Network> networks_;
  std::vector<NamedConvolution> all_;
};

}  // namespace poseidon::test
