#include "comm/exchange/layer_sums.h"

#include "comm/exchange/sum_by_servers.h"
#include "comm/exchange/sum_locally.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

std::vector<ChunkSum> chunk_sums(ExchangeContext& context) {
  std::vector<ChunkSum> chunks;
  chunks.reserve(context.plan.chunks.size());
  for (uint32_t i = 0; i < context.plan.chunks.size(); ++i) chunks.emplace_back(context, i);
  return chunks;
}

using PiecesOfLayer = std::vector<SumByServers::PieceOf>;

/// By layer: all pieces of its tensors.
std::vector<PiecesOfLayer> pieces_in_chunks(const Plan& plan) {
  std::vector<PiecesOfLayer> pieces(plan.layers.size());
  for (uint32_t chunk = 0; chunk < plan.chunks.size(); ++chunk)
    for (uint32_t piece = 0; piece < plan.chunks[chunk].pieces.size(); ++piece)
      pieces[plan.chunks[chunk].pieces[piece].layer].push_back({chunk, piece});
  return pieces;
}

}  // namespace

LayerSums::LayerSums(ExchangeContext& context)
    : chunks_(chunk_sums(context)), factor_buffers_(context.plan) {
  const std::vector<PiecesOfLayer> pieces = pieces_in_chunks(context.plan);
  const auto make = [&](uint32_t layer) -> std::unique_ptr<LayerSum> {
    const Scheme scheme = context.plan.layers[layer].scheme;
    check(traits_of(scheme).uses_servers() || pieces[layer].empty(),
          "only layers that servers sum have chunks");
    switch (scheme) {
      case Scheme::kLocal: return std::make_unique<SumLocally>(context, layer);
      case Scheme::kPs:
        return std::make_unique<SumByServers>(context, layer, chunks_, pieces[layer]);
      case Scheme::kSfb: return std::make_unique<SumByFactors>(context, layer, factor_buffers_);
    }
    throw LogicError("unknown scheme of a layer");
  };
  for (uint32_t layer = 0; layer < context.plan.layers.size(); ++layer)
    sums_.push_back(make(layer));
}

}  // namespace poseidon::comm
