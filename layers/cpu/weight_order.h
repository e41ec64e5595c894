#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/scratch.h"

namespace poseidon::layers::cpu {

using poseidon::cpu::Dims;
using poseidon::cpu::FormatTag;

/// The conversion of a weight between canonical order (outputs x inputs/groups x kernel) and the
/// packed order of its layer. Created once.
class WeightOrder {
 public:
  /// Receives elements from `first` on, in packed order.
  using PieceSink = std::function<void(int64_t first, std::span<const float> piece)>;

  WeightOrder() = default;
  WeightOrder(CpuDevice& device, const Dims& shape, const MemoryDesc& canonical,
              const MemoryDesc& packed);

  bool is_canonical() const { return is_canonical_; }
  /// See Layer::packed_order.
  const std::string& name() const { return name_; }
  int64_t count() const { return static_cast<int64_t>(count_); }  ///< packed elements
  void pack(CpuDevice& device, const float* canonical, float* packed) const;
  void unpack(CpuDevice& device, const float* packed, float* canonical) const;
  /// Packs a weight, and passes it to `take`. If Poseidon's own code packs this order, each thread
  /// passes a piece while the piece is in the cache. Else the complete weight is one piece.
  /// `memory` is the buffer of the pieces, as large as the packed weight.
  void pack_pieces(CpuDevice& device, const float* canonical, float* memory,
                   const PieceSink& take) const;

 private:
  /// oneDNN's orders of convolutions, [output block][input block][kernel][inputs][outputs], and of
  /// linear layers, [strip of outputs][inputs][outputs]. A strip is one or two blocks. A strip is
  /// contiguous in both orders, and is called a piece.
  struct Blocked {
    int64_t outputs = 0, inputs = 0, area = 0, block = 0, strip = 0;
    int64_t pieces() const { return outputs / strip; }
    int64_t elements() const { return strip * inputs * area; }  ///< elements of a piece
    void pack(const float* canonical, float* packed) const;     ///< one piece
    void unpack(const float* packed, float* canonical) const;

   private:
    template <class Use>
    void for_each_block(const Use& use) const;
  };
  static std::optional<Blocked> blocked(const Dims& shape, const MemoryDesc& packed);
  /// Calls body(first element) for each piece.
  template <class Body>
  void for_each_piece(ThreadTeam& team, const Body& body) const;

  bool is_canonical_ = true;
  std::string name_ = "canonical";
  size_t count_ = 0;
  std::optional<Blocked> blocked_;  ///< Poseidon's own code; nullopt: oneDNN's
  PreparedReorder pack_, unpack_;
};

/// Base class of layers whose first parameter is a weight in packed order. The constructor of the
/// subclass sets order_.
class PackedWeightLayer : public CpuLayer {
 public:
  using CpuLayer::CpuLayer;

  int64_t packed_count(int index) const override {
    return index == 0 ? order_.count() : CpuLayer::packed_count(index);
  }
  void pack(int index, const float* canonical, float* packed) const override;
  void unpack(int index, const float* packed, float* canonical) const override;
  void pack_gradient(int index, const float* canonical, const Bindings& memory,
                     const GradientSink& sink) const override;
  bool packed_is_canonical(int index) const override { return index != 0 || order_.is_canonical(); }
  std::string packed_order(int index) const override {
    return index == 0 ? order_.name() : CpuLayer::packed_order(index);
  }

 protected:
  WeightOrder order_;
};

}  // namespace poseidon::layers::cpu
