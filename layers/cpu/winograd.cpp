#include "layers/cpu/winograd.h"

#include <algorithm>

#include "core/error.h"
#include "layers/cpu/winograd_product.h"
#include "layers/cpu/winograd_shares.h"

namespace poseidon::layers::cpu {
namespace {

using namespace winograd;

alignas(64) constexpr std::array<float, kLanes> kZeros{};  ///< a zero cell, as float or as Bf16

/// n x n cells of a plane. Cells outside the plane are zero.
template <int n, class Element>
class Cells {
 public:
  Cells(const Element* plane, const Shape& shape, int64_t y, int64_t x)
      : plane_(plane), height_(shape.height()), width_(shape.width()), y_(y), x_(x) {}

  bool inside() const { return y_ >= 0 && x_ >= 0 && y_ + n <= height_ && x_ + n <= width_; }
  /// Requires inside().
  Row<n> dense_row(size_t i) const {
    Row<n> row;
    for (size_t k = 0; k < n; ++k) row[k] = load<Float>(at(i, k));
    return row;
  }
  Row<n> row(size_t i) const {
    const int64_t y = y_ + static_cast<int64_t>(i);
    const bool has_row = y >= 0 && y < height_;
    const auto* zeros = reinterpret_cast<const Element*>(kZeros.data());
    Row<n> row;
    for (size_t k = 0; k < n; ++k) {
      const int64_t x = x_ + static_cast<int64_t>(k);
      // A choice between addresses needs no branch.
      const bool has_cell = has_row & (x >= 0) & (x < width_);
      row[k] = load<Float>(has_cell ? at(i, k) : zeros);
    }
    return row;
  }

 private:
  const Element* at(size_t i, size_t k) const {
    return plane_ +
           ((y_ + static_cast<int64_t>(i)) * width_ + x_ + static_cast<int64_t>(k)) * kLanes;
  }

  const Element* plane_;
  int64_t height_, width_, y_, x_;
};

/// Transforms cells into Winograd's basis, and stores the resulting kPoints values.
template <int n, class Element, class Change>
void store_points(const Cells<n, Element>& cells, const Change& change, const Matrices& room,
                  int64_t tile, int64_t channel) {
  const auto put = [&](size_t x, const Row<kSide>& column) {
    for (size_t y = 0; y < kSide; ++y) store(room.at(y * kSide + x, tile, channel), column[y]);
  };
  if (cells.inside())
    both_ways<kSide, n>([&](size_t y) { return cells.dense_row(y); }, change, put);
  else
    both_ways<kSide, n>([&](size_t y) { return cells.row(y); }, change, put);
}

template <int kTaps, class Element>
class WinogradOf final : public Winograd {
 public:
  WinogradOf(const WinogradGeometry& geometry, ThreadTeam& team)
      : g_(geometry),
        team_(team),
        inputs_(geometry.input.channels() / geometry.groups),
        outputs_(geometry.output.channels() / geometry.groups),
        tile_rows_(geometry.tile_rows()),
        tile_columns_(geometry.tile_columns()),
        shares_(team, Shares::for_threads(team.threads(), geometry.tiles(), inputs_, outputs_),
                geometry.tiles(), inputs_, outputs_),
        shares_of_sums_(team, Shares::for_sums(team.threads(), geometry.tiles(), inputs_, outputs_),
                        geometry.tiles(), inputs_, outputs_) {}

  size_t forward_scratch_bytes() const override {
    return sizeof(float) * static_cast<size_t>(weight_room() + shares_.room());
  }

  size_t backward_weights_scratch_bytes() const override {
    return sizeof(float) *
           static_cast<size_t>(shares_of_sums_.tile_parts() * sums_room() + shares_of_sums_.room());
  }

  void forward(const void* input, const float* weight, const Extras& extras, void* output,
               std::byte* scratch) const override {
    const auto* in = static_cast<const Element*>(input);
    auto* out = static_cast<Element*>(output);
    for (int64_t group = 0; group < g_.groups; ++group) {
      Extras own = extras;
      if (own.bias != nullptr) own.bias += group * outputs_;
      forward_group(in + group * inputs_ * g_.input.area(), weight + group * weights(), own,
                    out + group * outputs_ * g_.output.area(), scratch);
    }
  }

  void backward_weights(const void* input, const void* output_gradient, float* weight, float* bias,
                        std::byte* scratch) const override {
    const auto* in = static_cast<const Element*>(input);
    const auto* gradient = static_cast<const Element*>(output_gradient);
    for (int64_t group = 0; group < g_.groups; ++group)
      weights_of_group(in + group * inputs_ * g_.input.area(),
                       gradient + group * outputs_ * g_.output.area(), weight + group * weights(),
                       bias == nullptr ? nullptr : bias + group * outputs_, scratch);
  }

 private:
  static constexpr int kOut = kSide + 1 - kTaps;  ///< outputs of a tile, in height and width

  int64_t weights() const { return kTaps * kTaps * inputs_ * outputs_; }  ///< weights of a group

  void forward_group(const Element* input, const float* weight, const Extras& extras,
                     Element* output, std::byte* scratch) const {
    auto* memory = reinterpret_cast<float*>(scratch);
    const Matrices points = weight_at(memory);
    transform_weight(weight, extras.turned, points);
    shares_.for_each_block(memory + weight_room(), [&](const Share& share, const Range& tiles,
                                                       const Matrices& in, const Matrices& out) {
      take_input(tiles, input, in);
      for (size_t p = 0; p < kPoints; ++p)
        for (int64_t column = share.outputs.first; column < share.outputs.end; column += kStrip)
          point_product(p, column, in, tiles.count(), points, out);
      write_output(tiles, share.outputs, out, extras, output);
    });
  }

  void weights_of_group(const Element* input, const Element* output_gradient, float* weight,
                        float* bias, std::byte* scratch) const {
    auto* sums = reinterpret_cast<float*>(scratch);
    const auto add_share = [&](const Share& share, const Matrices& in, const Matrices& out) {
      float* own = sums + share.tile_part * sums_room();
      std::fill(own + weight_room() + share.outputs.first, own + weight_room() + share.outputs.end,
                0.0F);
      shares_of_sums_.for_blocks(share, [&](const Range& tiles) {
        take_input(tiles, input, in);
        read_gradient(tiles, share.outputs, output_gradient, out);
        if (bias != nullptr)
          add_to_bias(tiles, share.outputs, output_gradient, own + weight_room());
        for (size_t p = 0; p < kPoints; ++p)
          for (int64_t column = share.outputs.first; column < share.outputs.end; column += kStrip)
            transposed_product(p, column, in, tiles.count(), out, weight_at(own),
                               tiles.first > share.tiles.first);
      });
    };
    shares_of_sums_.for_each(sums + shares_of_sums_.tile_parts() * sums_room(), add_share);
    finish_weights(sums, weight);
    if (bias == nullptr) return;
    for (int64_t k = 0; k < outputs_; k += kLanes)
      store(bias + k, sum_of_parts(sums + weight_room() + k));
  }

  int64_t weight_room() const { return Matrices::count(inputs_, outputs_); }
  int64_t sums_room() const { return weight_room() + outputs_; }  ///< floats for weight and bias
  Matrices weight_at(float* memory) const { return {memory, inputs_, outputs_}; }

  /// Calls body(i, channel, plane, y, x) for each tile and each block of kLanes channels. i: index
  /// of the tile in `tiles`. channel: first channel of the block. plane: the block's plane. y, x:
  /// position of the tile's first output. `data` and `channels` are those of one group. The blocks
  /// are the outer loop, so that planes are read contiguously.
  template <class Data, class Body>
  void for_tiles(const Range& tiles, const Range& channels, Data* data, const Shape& shape,
                 const Body& body) const {
    for (int64_t channel = channels.first; channel < channels.end; channel += kLanes) {
      const int64_t row = tiles.first / tile_columns_;
      int64_t sample = row / tile_rows_, y = row % tile_rows_, x = tiles.first % tile_columns_;
      for (int64_t i = 0; i < tiles.count(); ++i) {
        Data* plane = data + (sample * shape.channels() + channel) * shape.area();
        body(i, channel, plane, y * kOut, x * kOut);
        if (++x < tile_columns_) continue;
        x = 0;
        if (++y < tile_rows_) continue;
        y = 0;
        ++sample;
      }
    }
  }

  void take_input(const Range& tiles, const Element* input, const Matrices& room) const {
    for_tiles(tiles, {0, inputs_}, input, g_.input,
              [&](int64_t i, int64_t channel, const Element* plane, int64_t y, int64_t x) {
                const Cells<kSide, Element> cells(plane, g_.input, y - g_.padding[0],
                                                  x - g_.padding[1]);
                store_points(cells, TransformBT{}, room, i, channel);
              });
  }

  void read_gradient(const Range& tiles, const Range& outputs, const Element* gradient,
                     const Matrices& room) const {
    for_tiles(tiles, outputs, gradient, g_.output,
              [&](int64_t i, int64_t channel, const Element* plane, int64_t y, int64_t x) {
                const Cells<kOut, Element> cells(plane, g_.output, y, x);
                store_points(cells, TransformA{}, room, i, channel);
              });
  }

  void add_to_bias(const Range& tiles, const Range& outputs, const Element* gradient,
                   float* bias) const {
    for_tiles(tiles, outputs, gradient, g_.output,
              [&](int64_t, int64_t channel, const Element* plane, int64_t y, int64_t x) {
                const Cells<kOut, Element> cells(plane, g_.output, y, x);
                auto sum = load<Float>(bias + channel);
                for (size_t row = 0; row < kOut; ++row)
                  for (const Float& cell : cells.row(row)) sum += cell;
                store(bias + channel, sum);
              });
  }

  void write_output(const Range& tiles, const Range& outputs, const Matrices& room,
                    const Extras& extras, Element* output) const {
    for_tiles(tiles, outputs, output, g_.output,
              [&](int64_t i, int64_t channel, Element* plane, int64_t y, int64_t x) {
                const Float bias =
                    extras.bias != nullptr ? load<Float>(extras.bias + channel) : Float{};
                give_tile(room, i, channel, bias, extras.relu, plane, y, x);
              });
  }

  void give_tile(const Matrices& room, int64_t tile, int64_t channel, const Float& bias,
                 const std::optional<float>& relu, Element* plane, int64_t y, int64_t x) const {
    const auto height = static_cast<size_t>(std::min<int64_t>(kOut, g_.output.height() - y));
    const auto width = static_cast<size_t>(std::min<int64_t>(kOut, g_.output.width() - x));
    Element* corner = plane + (y * g_.output.width() + x) * kLanes;
    const auto row_of = [&](size_t row) {
      Row<kSide> points;
      for (size_t k = 0; k < kSide; ++k)
        points[k] = load<Float>(room.at(row * kSide + k, tile, channel));
      return points;
    };
    const auto put = [&](size_t k, const Row<kOut>& column) {
      if (k >= width) return;
      for (size_t row = 0; row < height; ++row) {
        Float value = column[row] + bias;
        if (relu) value = value > 0 ? value : *relu * value;
        store(corner + (static_cast<int64_t>(row) * g_.output.width() + static_cast<int64_t>(k)) *
                           kLanes,
              value);
      }
    };
    both_ways<kOut, kSide>(row_of, TransformAT<kOut>{}, put);
  }

  /// Calls body(first input, first output, their kernels) for each pair of an input block and an
  /// output block. `turned`: the input block is the outer index in memory, because the inputs of
  /// this convolution are the outputs of the forward pass.
  template <class Weight, class Body>
  void for_kernels(Weight* weight, bool turned, const Body& body) const {
    const int64_t from = inputs_ / kLanes, to = outputs_ / kLanes;
    for_each_pair(team_, to, from, kPoints * kLanes * kLanes, [&](int64_t o, int64_t i) {
      body(i * kLanes, o * kLanes,
           weight + (turned ? i * to + o : o * from + i) * kTaps * kTaps * kLanes * kLanes);
    });
  }
  static int64_t tap(size_t y, size_t x) {
    return static_cast<int64_t>(y * kTaps + x) * kLanes * kLanes;
  }

  void transform_weight(const float* weight, bool turned, const Matrices& points) const {
    for_kernels(weight, turned, [&](int64_t input, int64_t output, const float* kernels) {
      for (int64_t i = 0; i < kLanes; ++i)
        both_ways<kSide, kTaps>(
            [&](size_t y) {
              Row<kTaps> row;
              for (size_t x = 0; x < kTaps; ++x)
                row[x] =
                    load<Float>(kernels + (turned ? tap(kTaps - 1 - y, kTaps - 1 - x) : tap(y, x)) +
                                i * kLanes);
              return row;
            },
            [](const auto& line) { return scaled(TransformA{}(line)); },
            [&](size_t x, const Row<kSide>& column) {
              for (size_t y = 0; y < kSide; ++y)
                store(points.at(y * kSide + x, input + i, output), column[y]);
            });
    });
  }

  void finish_weights(float* sums, float* weight) const {
    for_kernels(weight, false, [&](int64_t input, int64_t output, float* kernels) {
      for (int64_t i = 0; i < kLanes; ++i)
        both_ways<kTaps, kSide>(
            [&](size_t y) {
              Row<kSide> row;
              for (size_t x = 0; x < kSide; ++x)
                row[x] = sum_of_parts(weight_at(sums).at(y * kSide + x, input + i, output));
              return row;
            },
            [](const auto& line) { return TransformAT<kTaps>{}(scaled(line)); },
            [&](size_t x, const Row<kTaps>& column) {
              for (size_t y = 0; y < kTaps; ++y) store(kernels + tap(y, x) + i * kLanes, column[y]);
            });
    });
  }

  /// The sum of a vector over all parts. `first` is the vector in the first part.
  Float sum_of_parts(const float* first) const {
    Float sum = load<Float>(first);
    for (int64_t part = 1; part < shares_of_sums_.tile_parts(); ++part)
      sum += load<Float>(first + part * sums_room());
    return sum;
  }

  WinogradGeometry g_;
  ThreadTeam& team_;
  int64_t inputs_, outputs_;  ///< channels of a group
  int64_t tile_rows_, tile_columns_;
  Shares shares_;          ///< of a forward pass
  Shares shares_of_sums_;  ///< of the gradient of a weight
};

}  // namespace

int64_t WinogradGeometry::lanes() { return winograd::kLanes; }

WinogradGeometry WinogradGeometry::of_backward_data() const {
  return {kernel, {kernel - 1 - padding[0], kernel - 1 - padding[1]}, groups, output, input};
}

std::unique_ptr<Winograd> Winograd::make(const WinogradGeometry& geometry, DataType activations,
                                         ThreadTeam& team) {
  return with_element_of(activations, [&](auto element) -> std::unique_ptr<Winograd> {
    using Element = decltype(element);
    if (geometry.kernel == 3) return std::make_unique<WinogradOf<3, Element>>(geometry, team);
    check(geometry.kernel == 5, "Winograd's method supports kernels of 3 and 5");
    return std::make_unique<WinogradOf<5, Element>>(geometry, team);
  });
}

}  // namespace poseidon::layers::cpu
