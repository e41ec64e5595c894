#include "layers/cpu/elementwise.h"

#include <map>

namespace poseidon::layers::cpu {

Format common_format(const LayerRequest& request) {
  std::map<Format, int64_t> elements;
  for (size_t i = 0; i < request.input_shapes.size(); ++i)
    elements[request.input_formats[i]] += request.input_shapes[i].count();
  Format best = request.input_formats[0];
  for (const auto& [format, count] : elements)
    if (count > elements[best]) best = format;
  return best;
}

void clear_padding(ThreadTeam& team, const Tensor& tensor) {
  const Blocking b = tensor.blocking();
  const int64_t used = b.channels - (b.blocks - 1) * b.block;
  if (used == b.block) return;
  with_element_of(tensor.format.type, [&](auto element) {
    auto* data = tensor.as<decltype(element)>();
    for_each_item(team, b.samples, b.area * (b.block - used), [&](int64_t sample) {
      auto* last_block = data + b.offset(sample, (b.blocks - 1) * b.block, 0);
      for (int64_t position = 0; position < b.area; ++position)
        std::fill(last_block + position * b.block + used, last_block + (position + 1) * b.block,
                  0.0F);
    });
  });
}

void clear(ThreadTeam& team, const Tensor& tensor) {
  const int64_t count = tensor.blocking().count();
  with_element_of(tensor.format.type, [&](auto element) {
    auto* data = tensor.as<decltype(element)>();
    for_each_element(team, count, [=](int64_t i) { data[i] = 0.0F; });
  });
}

void copy(ThreadTeam& team, const Tensor& source, const Tensor& target) {
  if (source.data == target.data) return;
  map(team, source, target, [](float value) { return value; });
}

}  // namespace poseidon::layers::cpu
