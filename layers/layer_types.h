#pragma once

/// The table of layer types: it calls `with(type, Class, maker, description)` for each type, in
/// alphabetical order. Class: the class of the definition. Each device's factory calls make_MAKER;
/// several types may share a maker. Network files use the type's name. docs/config.md prints the
/// description.
// clang-format off
#define POSEIDON_LAYER_TYPES(with) \
  with(absval, Absval, function, "absolute value, |x|") \
  with(accuracy, Accuracy, accuracy, "top-k accuracy: 1 if the label is among the k best scores, else 0") \
  with(argmax, Argmax, argmax, "indices of a sample's largest elements") \
  with(batch_norm, BatchNorm, batch_norm, "batch normalization of each channel, with scale and shift") \
  with(bias, Bias, channel_function, "adds a learned bias to each channel") \
  with(bnll, Bnll, function, "softplus: ln(1 + e^x)") \
  with(clip, Clip, function, "limits values to [minimum, maximum]") \
  with(concat, Concat, concat, "concatenates inputs along the channels") \
  with(contrastive_loss, ContrastiveLoss, contrastive_loss, \
       "contrastive loss for distance d: d^2 / 2 for pairs of one class, else max(0, margin - d)^2 / 2") \
  with(convolution, Convolution, convolution, "2D convolution, with groups and bias") \
  with(crop, Crop, crop, "crops the first input to height and width of the second") \
  with(deconvolution, Deconvolution, deconvolution, "transposed convolution, with groups and bias") \
  with(dropout, Dropout, dropout, \
       "in training sets random elements to 0 and scales the others by 1 / (1 - probability)") \
  with(eltwise, Eltwise, eltwise, "combines inputs of equal shape") \
  with(elu, Elu, function, "exponential linear unit") \
  with(euclidean_loss, EuclideanLoss, euclidean_loss, "half the squared distance between values and targets") \
  with(exp, Exp, function, "base^(scale x + shift)") \
  with(flatten, Flatten, flatten, "flattens channels, height and width to features") \
  with(hinge_loss, HingeLoss, hinge_loss, \
       "hinge loss: sum of max(0, 1 - score) at the label, max(0, 1 + score) elsewhere") \
  with(infogain_loss, InfogainLoss, infogain_loss, \
       "softmax probabilities p, then -sum over classes of H[label][class] ln(p[class])") \
  with(linear, Linear, linear, "fully connected layer, with bias") \
  with(log, Log, function, "logarithm of scale x + shift") \
  with(lrn, Lrn, lrn, "local response normalization: x / (k + alpha m)^beta, m: mean square in the window") \
  with(multinomial_loss, MultinomialLoss, multinomial_loss, \
       "-ln of the label's probability; the input has probabilities") \
  with(mvn, Mvn, mvn, "normalizes each channel of a sample to mean 0 and variance 1") \
  with(pooling, Pooling, pooling, "maximum, mean or random value of each window") \
  with(power, Power, function, "(scale x + shift)^power") \
  with(prelu, Prelu, channel_function, "leaky ReLU with a learned slope per channel") \
  with(reduction, Reduction, reduction, "sum or mean of each sample's elements") \
  with(relu, Relu, function, "ReLU, leaky with a slope") \
  with(reshape, Reshape, reshape, "changes the shape of samples") \
  with(scale, Scale, channel_function, "multiplies each channel by a learned factor, or by the second input") \
  with(sigmoid, Sigmoid, function, "logistic function") \
  with(sigmoid_loss, SigmoidLoss, sigmoid_loss, "sigmoid and cross entropy with target probabilities") \
  with(silence, Silence, silence, "consumes outputs that no other layer reads") \
  with(slice, Slice, slice, "a range of channels") \
  with(softmax, Softmax, softmax, "softmax over the channels") \
  with(softmax_loss, SoftmaxLoss, softmax_loss, "softmax and cross entropy with the labels") \
  with(swish, Swish, function, "x sigmoid(beta x)") \
  with(tanh, Tanh, function, "hyperbolic tangent") \
  with(threshold, Threshold, function, "1 above the threshold, else 0") \
  with(tile, Tile, tile, "repeats the input along the channels")
// clang-format on
