#pragma once

#include <type_traits>

#include "layers/cuda/map.cuh"

/// Functions that load and store neighboring channels of one position in channels-last tensors. If
/// the channels of a position fill whole packs (16 bytes), a thread processes one pack of channels,
/// else one channel. Elementwise kernels use the same functions for any neighboring elements.
namespace poseidon::layers::cuda {

/// The values of kEach neighboring channels.
template <int kEach>
struct Channels {
  float values[kEach];

  POSEIDON_DEVICE float& operator[](int i) { return values[i]; }
  POSEIDON_DEVICE const float& operator[](int i) const { return values[i]; }
};

template <int kEach, class Element>
POSEIDON_DEVICE Channels<kEach> load_channels(const Element* from) {
  Channels<kEach> channels;
  if constexpr (kEach % kPack<Element> == 0) {
#pragma unroll
    for (int first = 0; first < kEach; first += kPack<Element>) {
      const Pack<Element> pack = load_pack(from + first);
#pragma unroll
      for (int i = 0; i < kPack<Element>; ++i) channels[first + i] = pack[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i) channels[i] = from[i];
  }
  return channels;
}

template <int kEach, class Element>
POSEIDON_DEVICE void store_channels(Element* to, const Channels<kEach>& channels) {
  if constexpr (kEach % kPack<Element> == 0) {
#pragma unroll
    for (int first = 0; first < kEach; first += kPack<Element>) {
      Pack<Element> pack;
#pragma unroll
      for (int i = 0; i < kPack<Element>; ++i) pack[i] = channels[first + i];
      store_pack(to + first, pack);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i) to[i] = channels[i];
  }
}

/// Calls visitor(each). `each` is the number of channels that a thread processes, as an
/// std::integral_constant.
template <class Element, class Visitor>
void with_channels_of(int64_t channels, const Visitor& visitor) {
  constexpr int kWhole = kPack<Element>;
  if (channels % kWhole == 0)
    visitor(std::integral_constant<int, kWhole>{});
  else
    visitor(std::integral_constant<int, 1>{});
}

/// Calls visitor(element, each), for an element type that is known only at run time.
template <class Visitor>
void with_channels_of(DataType type, int64_t channels, const Visitor& visitor) {
  with_element_of(type, [&](auto element) {
    with_channels_of<decltype(element)>(channels, [&](auto each) { visitor(element, each); });
  });
}

/// Makes a LayerOf for the element type and the number of channels of the layer's first input.
template <template <class Element, int kEach> class LayerOf>
std::unique_ptr<Layer> make_for_channels(const LayerRequest& request, CudaDevice& device) {
  std::unique_ptr<Layer> layer;
  with_channels_of(request.input_formats[0].type, request.input_shapes[0].channels(),
                   [&](auto element, auto each) {
                     layer = std::make_unique<LayerOf<decltype(element), each>>(request, device);
                   });
  return layer;
}

}  // namespace poseidon::layers::cuda
