#include "layers/registry.h"

#include "layers/batch_norm.h"
#include "layers/concat.h"
#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/eltwise.h"
#include "layers/flatten.h"
#include "layers/linear.h"
#include "layers/lrn.h"
#include "layers/pooling.h"
#include "layers/relu.h"
#include "layers/sigmoid.h"
#include "layers/softmax.h"
#include "layers/softmax_loss.h"
#include "layers/tanh.h"

namespace poseidon::layers {

namespace {

template <class Type>
std::unique_ptr<Definition> make() {
  return std::make_unique<Type>();
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> kTypes{
      {"batch_norm", "normalizes each channel over the batch, with scale and shift",
       make<BatchNorm>},
      {"concat", "lays its inputs one after another along the channels", make<Concat>},
      {"convolution", "convolves over height and width, in groups, with bias", make<Convolution>},
      {"dropout", "drops elements at random in training", make<Dropout>},
      {"eltwise", "combines inputs of equal shape element by element", make<Eltwise>},
      {"flatten", "turns channels, height and width into features", make<Flatten>},
      {"linear", "fully connected, with bias", make<Linear>},
      {"lrn", "local response normalization, across or within channels", make<Lrn>},
      {"pooling", "maximum or mean over windows", make<Pooling>},
      {"relu", "rectifier, leaky where a slope is given", make<Relu>},
      {"sigmoid", "logistic function", make<Sigmoid>},
      {"softmax", "scores to probabilities over the channels", make<Softmax>},
      {"softmax_loss", "softmax and cross entropy with the labels", make<SoftmaxLoss>},
      {"tanh", "hyperbolic tangent", make<Tanh>},
  };
  return kTypes;
}

std::unique_ptr<Definition> make_definition(const std::string& type) {
  for (const LayerType& known : layer_types())
    if (known.name == type) return known.make();
  return nullptr;
}

}  // namespace poseidon::layers
