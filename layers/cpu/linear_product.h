#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/cpu/onednn.h"
#include "core/cpu/thread_team.h"

/// The forward pass and the backward data pass of a linear layer, by Poseidon's own product
/// (layers/cpu/product.h). Both read the weight in place. The bits do not depend on the number of
/// threads.
namespace poseidon::layers::cpu::product {

/// Tasks for each thread, so that all threads end at about the same time.
inline constexpr int64_t kLinearTasksOfThread = 4;

struct LinearSizes {
  int64_t samples, inputs, outputs;
};

/// The order of the weight: [outputs / strip][inputs][strip]. Inputs are padded to a multiple of
/// 16, outputs to a multiple of the strip (layers/cpu/strip_product.h).
poseidon::cpu::MemoryDesc linear_weight_order(const LinearSizes& sizes);
/// Inputs of the weight in this order, with padding.
int64_t padded_weight_inputs(int64_t inputs);

/// y = x W^T + bias, or relu(x W^T + bias). Each element of y is one chain of multiply-adds that
/// begins with the bias and continues in the order of the inputs.
class LinearForward {
 public:
  /// `team` must outlive this object.
  LinearForward(const LinearSizes& sizes, poseidon::cpu::ThreadTeam& team);

  struct Memory {
    const float *x, *weight;
    const float* bias;          ///< nullptr: none
    std::optional<float> relu;  ///< negative slope
    float* y;
    float* scratch;
  };
  size_t scratch_bytes() const;
  void run(const Memory& memory) const;

 private:
  /// Rows that one call computes: samples from `first` on. They are divided into tiles.
  struct Rows {
    int64_t first, count, tiles;
    int64_t begin(int64_t tile) const { return count * tile / tiles; }
  };
  /// Tiles of rows and strips of outputs that one thread computes.
  struct Task {
    int64_t first_tile, end_tile, first_strip, end_strip;
    const float* x;  ///< copy of x; the first row is row 0 of the Rows
    float* sums;
  };
  /// The number of groups of strips, and of blocks of tiles. A task is a group and a block.
  struct Division {
    int64_t groups, blocks;
  };
  Division division(int64_t tiles) const;
  void copy_x(const float* x, const Rows& rows, int64_t tile, float* to) const;
  void multiply(const Memory& memory, const Rows& rows) const;
  void multiply(const Memory& memory, const Rows& rows, const Task& task, int64_t strip,
                int64_t first) const;
  int64_t copied_floats() const;
  int64_t floats_of_thread() const;  ///< scratch memory of a thread
  int64_t padded_inputs() const;     ///< inputs of x in the scratch memory

  LinearSizes sizes_;
  poseidon::cpu::ThreadTeam& team_;
};

/// dx = dy W. Each element of dx is one chain of multiply-adds in the order of the outputs.
class LinearBackwardData {
 public:
  /// `team` must outlive this object.
  LinearBackwardData(const LinearSizes& sizes, poseidon::cpu::ThreadTeam& team);

  struct Memory {
    const float *dy, *weight;
    float* dx;
    float* scratch;
  };
  size_t scratch_bytes() const;
  void run(const Memory& memory) const;

 private:
  /// Samples that one call computes. They are divided into strips.
  struct Samples {
    int64_t first, count;
  };
  /// Strips of samples, and inputs, that one thread computes.
  struct Task {
    int64_t first_strip, end_strip, first_input, end_input;
    float* sums;    ///< of the task: [strips][kInputsOfTask][strip]
    float* weight;  ///< copies of tiles of the weight, kDepth outputs of each input
  };
  /// One product: a tile of the weight (inputs x kDepth outputs) and a strip of samples.
  struct Piece {
    int64_t first_output, strip;
    int64_t begin, rows;  ///< inputs of the task
    const float* weight;
    int64_t step;       ///< from one strip of the weight to the next
    const float* next;  ///< memory to prefetch
    int64_t next_step;
  };
  void copy_dy(const Memory& memory, const Samples& samples, int64_t strip, int64_t first) const;
  void multiply(const Memory& memory, const Samples& samples) const;
  void multiply(const Memory& memory, const Samples& samples, const Task& task) const;
  void use_copy(const Memory& memory, const Task& task, int64_t tile, Piece& piece) const;
  void multiply(const Memory& memory, const Samples& samples, const Task& task,
                const Piece& piece) const;
  void store_dx(const Memory& memory, const Samples& samples, const Task& task) const;
  int64_t copied_floats() const;
  /// A thread's scratch memory: sums, then a copy of a part of the weight.
  int64_t floats_of_sums() const;
  int64_t floats_of_thread() const;

  LinearSizes sizes_;
  poseidon::cpu::ThreadTeam& team_;
};

}  // namespace poseidon::layers::cpu::product
