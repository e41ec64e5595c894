#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/log.h"

namespace poseidon::trainer {

/// The sessions of a run: each process that has made steps of it, when, where, and what happened to
/// its nodes. `sessions.jsonl` in the run's folder holds them, a JSON object in each line:
/// {"type": "begin", "time", "host", "pid", "first_step"}; then {"type": "events", "losses",
/// "joins", "replayed_steps", "lost_s"}, with the losses and joins since the line before and the
/// sums of the session so far; and {"type": "end", "time", "steps", "how"}. Used by one thread.
class RunHistory {
 public:
  struct Options {
    std::filesystem::path run;
    int64_t steps_done = 0;  ///< when this session begins
    /// The last line of metrics.jsonl of the session before; null where there is none.
    Json last_line;
    /// Called before lines are written; throws RunError when they must not be.
    std::function<void()> before_writing = [] {};
  };

  /// Reads the earlier sessions. The session begins with the first call of another function.
  RunHistory(Options options, Log& log);

  void begin();
  /// What has happened to the nodes in this session so far, as ViewRecords::write_to() has it.
  void note_events(const Json& events);
  /// `how`: "finished", "stopped", or "failed: ...".
  void end(int64_t steps, std::string_view how);

  /// Adds "sessions" to a summary, which has the events of this session. Its "losses" and "joins"
  /// become those of all sessions, each with the number of its "session"; its "replayed_steps" and
  /// "lost_s" become the sums over all sessions.
  void add_to(Json& summary) const;

 private:
  void read();
  void end_interrupted();
  void append(const Json& line);

  const Options options_;
  Log& log_;
  const std::string begun_;        ///< the time of day
  Json sessions_ = Json::array();  ///< the last one is this one, once it has begun
  bool has_begun_ = false, warned_ = false;
};

}  // namespace poseidon::trainer
