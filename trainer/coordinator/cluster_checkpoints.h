#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/messages/notes.h"
#include "trainer/report/run_directory.h"
#include "trainer/state/checkpoint.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

/// Checkpoints that come in whole from workers, each written when all workers agree on what is in
/// it; after a loss it is the survivor's word. For the main thread, but for what says otherwise.
class ClusterCheckpoints {
 public:
  /// What a checkpoint of a step says beside its tensors.
  using StateOf = std::function<RunState(int64_t step)>;
  /// Told of each that is written: the worker that had sent it waits for that.
  using Written = std::function<void(uint16_t worker, int64_t step)>;

  /// `directory` must outlive it; `keep`: train.keep_checkpoints.
  ClusterCheckpoints(RunDirectory& directory, int64_t keep, StateOf state_of, Written written)
      : directory_(directory),
        keep_(keep),
        state_of_(std::move(state_of)),
        written_(std::move(written)) {}

  /// The run goes on from this one.
  void begin_from(int64_t step, const std::filesystem::path& file);
  // These write what can be written; they throw RunError when that fails, and then nothing is
  // written any more.
  void take(uint16_t worker, int64_t step, std::shared_ptr<TensorStore> tensors,
            SentCheckpoint sent);
  void agreed(int64_t step, std::vector<int64_t> digest);
  /// Writes one that a worker has kept of an earlier part of the run, which it says beside the
  /// tensors.
  void put(RunState state, TensorStore& store, const SentCheckpoint& sent);
  /// From now on nobody else's word is waited for.
  void trust_survivors();

  /// Of the last one that was written. From any thread.
  int64_t saved_step() const { return saved_step_; }
  /// Whether there is any use in sending one of `step`. From any thread.
  bool wants(int64_t step) const { return !failed_ && step > saved_step_; }
  const std::filesystem::path& last() const { return last_; }
  const std::string& weights_digest() const { return weights_digest_; }
  const std::string& state_digest() const { return state_digest_; }
  /// "; the last checkpoint is ...", for messages.
  std::string last_text() const;

 private:
  struct Waiting {
    uint16_t worker = 0;
    std::shared_ptr<TensorStore> tensors;
    SentCheckpoint sent;
  };

  void write_all();
  void write(int64_t step, const Waiting& waiting);

  RunDirectory& directory_;
  const int64_t keep_;
  const StateOf state_of_;
  const Written written_;
  std::map<int64_t, Waiting> waiting_;              ///< by step
  std::map<int64_t, std::vector<int64_t>> agreed_;  ///< digests by step
  bool trusting_ = false;
  std::filesystem::path last_;
  std::string weights_digest_, state_digest_;
  std::atomic<int64_t> saved_step_ = 0;
  std::atomic<bool> failed_ = false;
};

}  // namespace poseidon::trainer
