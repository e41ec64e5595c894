#pragma once

#include <dnnl.hpp>
#include <string>
#include <string_view>

#include "core/tensor.h"

/// Helpers for the use of oneDNN. All differences between oneDNN 2.x and 3.x are in this file.
namespace poseidon::cpu {

using Dims = dnnl::memory::dims;
using MemoryDesc = dnnl::memory::desc;
using FormatTag = dnnl::memory::format_tag;
inline constexpr auto kFloat = dnnl::memory::data_type::f32;

inline dnnl::memory::data_type onednn_type(DataType type) {
  return type == DataType::kBf16 ? dnnl::memory::data_type::bf16 : kFloat;
}

/// Makes the primitive descriptor of a forward pass. `arguments` are those of oneDNN's operation
/// descriptor, which is a separate object only in 2.x.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe_forward(const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attributes,
                                                    const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments..., attributes);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                            engine);
#endif
}

/// Makes the primitive descriptor of a backward pass. `hint` is that of the forward pass.
template <class Primitive, class Hint, class... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::engine& engine,
                                                     const dnnl::primitive_attr& attributes,
                                                     const Hint& hint,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments..., hint, attributes);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                            engine, hint);
#endif
}

/// In 2.x pooling with dilation is a separate primitive.
#if DNNL_VERSION_MAJOR >= 3
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;
#else
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;
#endif

/// The memory descriptor of an activation of rank 2 or 4.
inline MemoryDesc activation_desc(const Shape& shape, const Format& format) {
  const Dims dims(shape.extents().begin(), shape.extents().end());
  const auto type = onednn_type(format.type);
  if (shape.rank() == 2) return {dims, type, FormatTag::nc};
  switch (format.layout) {
    case Layout::kPlain: return {dims, type, FormatTag::nchw};
    case Layout::kChannelsLast: return {dims, type, FormatTag::nhwc};
    case Layout::kBlocked8: return {dims, type, FormatTag::nChw8c};
    case Layout::kBlocked16: return {dims, type, FormatTag::nChw16c};
  }
  return {};
}

/// The attributes of all primitives: the caller provides the scratchpad (temporary memory), so that
/// all layers can share one scratchpad.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// A post-op that applies leaky relu with this negative slope to a primitive's result.
inline dnnl::post_ops relu_post_op(float slope) {
  dnnl::post_ops operations;
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(dnnl::algorithm::eltwise_relu, slope, 0);
#else
  operations.append_eltwise(1, dnnl::algorithm::eltwise_relu, slope, 0);
#endif
  return operations;
}

/// The name of the implementation that oneDNN has selected, such as "oneDNN jit:avx2".
template <class PrimitiveDesc>
std::string implementation_name(const PrimitiveDesc& description) {
  return std::string("oneDNN ") + description.impl_info_str();
}

/// Whether an implementation is one of oneDNN's slow fallbacks ("ref:any", "simple:any").
inline bool is_reference(std::string_view implementation_name) {
  return implementation_name.starts_with("oneDNN ref") ||
         implementation_name.starts_with("oneDNN simple");
}
template <class PrimitiveDesc>
  requires requires(PrimitiveDesc d) { d.impl_info_str(); }
bool is_reference(const PrimitiveDesc& description) {
  return is_reference(implementation_name(description));
}

/// A memory object without memory. The caller sets the data pointer before each use.
inline dnnl::memory unbound(const MemoryDesc& description, const dnnl::engine& engine) {
  return {description, engine, nullptr};
}

}  // namespace poseidon::cpu
