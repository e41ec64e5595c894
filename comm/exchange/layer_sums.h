#pragma once

#include <memory>
#include <vector>

#include "comm/exchange/chunk_sum.h"
#include "comm/exchange/layer_sum.h"
#include "comm/exchange/sum_by_factors.h"

namespace poseidon::comm {

/// One LayerSum for each layer of a plan, of the class for the layer's scheme. Also holds the state
/// that the layers of one scheme share.
class LayerSums {
 public:
  /// `context` must outlive this object.
  explicit LayerSums(ExchangeContext& context);

  size_t size() const { return sums_.size(); }
  LayerSum& operator[](size_t layer) { return *sums_[layer]; }
  const LayerSum& operator[](size_t layer) const { return *sums_[layer]; }

 private:
  std::vector<ChunkSum> chunks_;  ///< all chunks of the plan
  FactorBuffers factor_buffers_;
  std::vector<std::unique_ptr<LayerSum>> sums_;
};

}  // namespace poseidon::comm
