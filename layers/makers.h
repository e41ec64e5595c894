#pragma once

/// All layer types with the names of their makers: `with(type, maker)` for each. Several types may
/// share a maker. Each device declares its makers by this list, and finds them by it.
// clang-format off
#define POSEIDON_LAYER_MAKERS(with) \
  with(absval, function)                   \
  with(accuracy, accuracy)                 \
  with(argmax, argmax)                     \
  with(batch_norm, batch_norm)             \
  with(bias, channel_function)             \
  with(bnll, function)                     \
  with(clip, function)                     \
  with(concat, concat)                     \
  with(contrastive_loss, contrastive_loss) \
  with(convolution, convolution)           \
  with(crop, crop)                         \
  with(deconvolution, deconvolution)       \
  with(dropout, dropout)                   \
  with(eltwise, eltwise)                   \
  with(elu, function)                      \
  with(euclidean_loss, euclidean_loss)     \
  with(exp, function)                      \
  with(flatten, flatten)                   \
  with(hinge_loss, hinge_loss)             \
  with(infogain_loss, infogain_loss)       \
  with(linear, linear)                     \
  with(log, function)                      \
  with(lrn, lrn)                           \
  with(multinomial_loss, multinomial_loss) \
  with(mvn, mvn)                           \
  with(pooling, pooling)                   \
  with(power, function)                    \
  with(prelu, channel_function)            \
  with(reduction, reduction)               \
  with(relu, function)                     \
  with(reshape, reshape)                   \
  with(scale, channel_function)            \
  with(sigmoid, function)                  \
  with(sigmoid_loss, sigmoid_loss)         \
  with(silence, silence)                   \
  with(slice, slice) \
  with(softmax, softmax)                   \
  with(softmax_loss, softmax_loss)         \
  with(swish, function)                    \
  with(tanh, function)                     \
  with(threshold, function)                \
  with(tile, tile)
// clang-format on
