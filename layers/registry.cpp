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
      {"accuracy", "top-k accuracy: 1 if the label is among the k best scores, else 0",
       make<Accuracy>},
      {"argmax", "indices of a sample's largest elements", make<Argmax>},
      {"batch_norm", "batch normalization of each channel, with scale and shift", make<BatchNorm>},
      {"bias", "adds a learned bias to each channel", make<Bias>},
      {"bnll", "softplus: ln(1 + e^x)", make<Bnll>},
      {"clip", "limits values to [minimum, maximum]", make<Clip>},
      {"concat", "concatenates inputs along the channels", make<Concat>},
      {"contrastive_loss",
       "contrastive loss for distance d: d^2 / 2 for pairs of one class, else max(0, margin - d)^2 "
       "/ 2",
       make<ContrastiveLoss>},
      {"convolution", "2D convolution, with groups and bias", make<Convolution>},
      {"crop", "crops the first input to height and width of the second", make<Crop>},
      {"deconvolution", "transposed convolution, with groups and bias", make<Deconvolution>},
      {"dropout",
       "in training sets random elements to 0 and scales the others by 1 / (1 - probability)",
       make<Dropout>},
      {"eltwise", "combines inputs of equal shape", make<Eltwise>},
      {"elu", "exponential linear unit", make<Elu>},
      {"euclidean_loss", "half the squared distance between values and targets",
       make<EuclideanLoss>},
      {"exp", "base^(scale x + shift)", make<Exp>},
      {"flatten", "flattens channels, height and width to features", make<Flatten>},
      {"hinge_loss",
       "hinge loss: sum of max(0, 1 - score) at the label, max(0, 1 + score) elsewhere",
       make<HingeLoss>},
      {"infogain_loss",
       "softmax probabilities p, then -sum over classes of H[label][class] ln(p[class])",
       make<InfogainLoss>},
      {"linear", "fully connected layer, with bias", make<Linear>},
      {"log", "logarithm of scale x + shift", make<Log>},
      {"lrn", "local response normalization: x / (k + alpha m)^beta, m: mean square in the window",
       make<Lrn>},
      {"multinomial_loss", "-ln of the label's probability; the input has probabilities",
       make<MultinomialLoss>},
      {"mvn", "normalizes each channel of a sample to mean 0 and variance 1", make<Mvn>},
      {"pooling", "maximum, mean or random value of each window", make<Pooling>},
      {"power", "(scale x + shift)^power", make<Power>},
      {"prelu", "leaky ReLU with a learned slope per channel", make<Prelu>},
      {"reduction", "sum or mean of each sample's elements", make<Reduction>},
      {"relu", "ReLU, leaky with a slope", make<Relu>},
      {"reshape", "changes the shape of samples", make<Reshape>},
      {"scale", "multiplies each channel by a learned factor, or by the second input", make<Scale>},
      {"sigmoid", "logistic function", make<Sigmoid>},
      {"sigmoid_loss", "sigmoid and cross entropy with target probabilities", make<SigmoidLoss>},
      {"silence", "consumes outputs that no other layer reads", make<Silence>},
      {"slice", "a range of channels", make<Slice>},
      {"softmax", "softmax over the channels", make<Softmax>},
      {"softmax_loss", "softmax and cross entropy with the labels", make<SoftmaxLoss>},
      {"swish", "x sigmoid(beta x)", make<Swish>},
      {"tanh", "hyperbolic tangent", make<Tanh>},
      {"threshold", "1 above the threshold, else 0", make<Threshold>},
      {"tile", "repeats the input along the channels", make<Tile>},
  };
  return kTypes;
}

std::unique_ptr<Definition> make_definition(const std::string& type) {
  for (const LayerType& known : layer_types())
    if (known.name == type) return known.make();
  return nullptr;
}

}  // namespace poseidon::layers
