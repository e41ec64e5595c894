#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "trainer/checkpoint.h"
#include "trainer/tensor_stream.h"

namespace poseidon::trainer {

/// Checkpoints that come in from a worker, each written when all workers agree on what is in it;
/// after a loss it is the survivor's word. For the main thread, but for saved_step().
class ClusterCheckpoints {
 public:
  /// What a checkpoint of a step says beside its tensors.
  using StateOf = std::function<RunState(int64_t step)>;

  ClusterCheckpoints(std::filesystem::path folder, StateOf state_of)
      : folder_(std::move(folder)), state_of_(std::move(state_of)) {}

  /// The run goes on from this one.
  void begin_from(int64_t step, const std::filesystem::path& file);
  /// `in_flight`: of how many steps it carries sums.
  void take(int64_t step, std::shared_ptr<TensorStore> tensors, int64_t in_flight);
  void agreed(int64_t step);
  /// From now on nobody else's word is waited for.
  void trust_survivors();

  /// Of the last one that was written. From any thread.
  int64_t saved_step() const { return saved_step_; }
  const std::filesystem::path& last() const { return last_; }
  const std::string& weights_digest() const { return weights_digest_; }
  /// "; the last checkpoint is ...", for messages.
  std::string last_text() const;

 private:
  struct Waiting {
    std::shared_ptr<TensorStore> tensors;
    int64_t in_flight = 0;
  };

  void write();

  const std::filesystem::path folder_;
  const StateOf state_of_;
  std::map<int64_t, Waiting> waiting_;  ///< by step
  int64_t agreed_step_ = -1;
  bool trusting_ = false;
  std::filesystem::path last_;
  std::string weights_digest_;
  std::atomic<int64_t> saved_step_ = 0;
};

}  // namespace poseidon::trainer
