#pragma once

#include <cstdint>
#include <vector>

namespace poseidon::trainer {

class CoordinatorIo;

/// How workers that join a run get their values: once all of them have built their nets, the first
/// worker of the view, which has the values, sends them once, as it sends a checkpoint, and they
/// are passed on as they come (ValueRelay). Used by the main thread.
class Handover {
 public:
  /// Another view begins after `step` steps, with values that all but `lacking` of its workers
  /// have.
  void begin_view(uint32_t view, int64_t step, size_t lacking);
  /// Whether there is such a view: first values, and those of a checkpoint, come otherwise.
  bool is_due() const { return view_ != 0; }
  /// A worker has built its net, and waits for its values.
  void ask(uint16_t worker, CoordinatorIo& io);
  /// Whether they have been asked for and have not come.
  bool is_under_way() const { return under_way_; }
  /// They have come, and are passed on.
  void end() { under_way_ = false; }

 private:
  uint32_t view_ = 0;  ///< 0: none
  int64_t step_ = 0;
  size_t lacking_ = 0;
  std::vector<uint16_t> waiting_;
  bool under_way_ = false;
};

}  // namespace poseidon::trainer
