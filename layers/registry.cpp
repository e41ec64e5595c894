#include "layers/registry.h"

#include "layers/accuracy.h"
#include "layers/argmax.h"
#include "layers/batch_norm.h"
#include "layers/channel_functions.h"
#include "layers/concat.h"
#include "layers/convolution.h"
#include "layers/crop.h"
#include "layers/deconvolution.h"
#include "layers/dropout.h"
#include "layers/eltwise.h"
#include "layers/flatten.h"
#include "layers/functions.h"
#include "layers/infogain_loss.h"
#include "layers/layer_types.h"
#include "layers/linear.h"
#include "layers/loss.h"
#include "layers/lrn.h"
#include "layers/mvn.h"
#include "layers/pooling.h"
#include "layers/reduction.h"
#include "layers/reshape.h"
#include "layers/silence.h"
#include "layers/slice.h"
#include "layers/softmax.h"
#include "layers/softmax_loss.h"
#include "layers/tile.h"

namespace poseidon::layers {

namespace {

template <class Type>
std::unique_ptr<Definition> make() {
  return std::make_unique<Type>();
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> kTypes{
#define POSEIDON_LAYER_TYPE(type, Class, maker, description) {#type, description, make<Class>},
      POSEIDON_LAYER_TYPES(POSEIDON_LAYER_TYPE)
#undef POSEIDON_LAYER_TYPE
  };
  return kTypes;
}

std::unique_ptr<Definition> make_definition(const std::string& type) {
  for (const LayerType& known : layer_types())
    if (known.name == type) return known.make();
  return nullptr;
}

}  // namespace poseidon::layers
