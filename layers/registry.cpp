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
      {"absval", "absolute value", make<Absval>},
      {"accuracy", "tells how often the label is among the best scores", make<Accuracy>},
      {"argmax", "places of a sample's greatest elements", make<Argmax>},
      {"batch_norm", "normalizes each channel over the batch, with scale and shift",
       make<BatchNorm>},
      {"bias", "adds a learned summand to each channel", make<Bias>},
      {"bnll", "ln(1 + e^x), softplus", make<Bnll>},
      {"clip", "holds values between two bounds", make<Clip>},
      {"concat", "lays its inputs one after another along the channels", make<Concat>},
      {"contrastive_loss", "draws two alike together and two others apart, up to a margin",
       make<ContrastiveLoss>},
      {"convolution", "convolves over height and width, in groups, with bias", make<Convolution>},
      {"crop", "the part of the first input that has the second's height and width", make<Crop>},
      {"deconvolution", "the transpose of a convolution, in groups, with bias",
       make<Deconvolution>},
      {"dropout", "drops elements at random in training", make<Dropout>},
      {"eltwise", "combines inputs of equal shape element by element", make<Eltwise>},
      {"elu", "exponential linear unit", make<Elu>},
      {"euclidean_loss", "half the squared distance between values and targets",
       make<EuclideanLoss>},
      {"exp", "a base to the power of the scaled and shifted input", make<Exp>},
      {"flatten", "turns channels, height and width into features", make<Flatten>},
      {"hinge_loss", "what scores lack of 1 at the label and of -1 elsewhere", make<HingeLoss>},
      {"infogain_loss", "softmax, and the logarithm of each probability by its worth at the label",
       make<InfogainLoss>},
      {"linear", "fully connected, with bias", make<Linear>},
      {"log", "logarithm of the scaled and shifted input", make<Log>},
      {"lrn", "local response normalization, across or within channels", make<Lrn>},
      {"multinomial_loss", "minus the logarithm of the label's probability", make<MultinomialLoss>},
      {"mvn", "normalizes each sample to mean 0 and variance 1", make<Mvn>},
      {"pooling", "maximum, mean or a random value of windows", make<Pooling>},
      {"power", "a power of the scaled and shifted input", make<Power>},
      {"prelu", "rectifier, leaky by a learned slope for each channel", make<Prelu>},
      {"reduction", "sum or mean of each sample's elements", make<Reduction>},
      {"relu", "rectifier, leaky where a slope is given", make<Relu>},
      {"reshape", "gives samples another shape", make<Reshape>},
      {"scale", "multiplies each channel by a learned factor, or by its second input", make<Scale>},
      {"sigmoid", "logistic function", make<Sigmoid>},
      {"sigmoid_loss", "logistic function and cross entropy with probabilities", make<SigmoidLoss>},
      {"silence", "reads what nobody else wants", make<Silence>},
      {"slice", "some neighbouring channels of its input", make<Slice>},
      {"softmax", "scores to probabilities over the channels", make<Softmax>},
      {"softmax_loss", "softmax and cross entropy with the labels", make<SoftmaxLoss>},
      {"swish", "x times the sigmoid of beta x", make<Swish>},
      {"tanh", "hyperbolic tangent", make<Tanh>},
      {"threshold", "1 above a threshold, else 0", make<Threshold>},
      {"tile", "lays its input several times along the channels", make<Tile>},
  };
  return kTypes;
}

std::unique_ptr<Definition> make_definition(const std::string& type) {
  for (const LayerType& known : layer_types())
    if (known.name == type) return known.make();
  return nullptr;
}

}  // namespace poseidon::layers
