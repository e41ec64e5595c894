#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/coordinator/first_values.h"

namespace poseidon::trainer {

/// How workers that join a run get their values: the first worker of the view, which has them,
/// sends them once, as it sends a checkpoint, and they are passed on to all who wait for them. Used
/// by the main thread.
class Handover {
 public:
  /// Another view begins after `step` steps, with values that some of its workers have.
  void begin_view(uint32_t view, int64_t step);
  /// Whether there is such a view: first values, and those of a checkpoint, come otherwise.
  bool is_due() const { return view_ != 0; }
  /// A worker has built its net, and waits for its values.
  void ask(uint16_t worker, CoordinatorIo& io);
  /// Whether they have been asked for and have not come.
  bool is_under_way() const { return !waiting_.empty(); }
  /// They have come.
  void pass_on(TensorStore& store, CoordinatorIo& io);
  /// All workers of the view have them.
  void clear() { values_ = {}; }

 private:
  uint32_t view_ = 0;  ///< 0: none
  int64_t step_ = 0;
  std::vector<uint16_t> waiting_;
  FirstValues values_;
};

}  // namespace poseidon::trainer
