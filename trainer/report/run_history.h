#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/log.h"

namespace poseidon::trainer {

/// The sessions of a run, with their times, hosts and node events. A session is one process that
/// has made steps of the run. `sessions.jsonl` in the run directory stores the sessions as lines of
/// JSON:
/// - {"type": "begin", "time", "host", "pid", "first_step"} begins a session.
/// - {"type": "events", "losses", "joins", "replayed_steps", "lost_s"} has the node failures and
///   joins since the previous line of this type, and the totals of the session so far.
/// - {"type": "end", "time", "steps", "how"} ends a session.
///
/// If a line cannot be written, this object warns once and the run continues. It throws LockLost if
/// another process has continued the run. Used by one thread.
class RunHistory {
 public:
  struct Options {
    std::filesystem::path run;
    int64_t steps_done = 0;  ///< number of steps done when this session begins
    /// The last line of metrics.jsonl from the previous session; null if there is none.
    Json last_line;
    /// Called before each line is written. Throws RunError if nothing can be written, and LockLost
    /// if another process owns the run.
    std::function<void()> before_writing = [] {};
  };

  /// Reads the earlier sessions. The first call of begin(), note_events() or end() begins this
  /// session.
  RunHistory(Options options, Log& log);

  /// Appends the line that begins this session, unless the line is already written. If the previous
  /// session has no end, first ends it as "interrupted".
  void begin();
  /// Appends the new node failures and joins. `events` has all node failures and joins of this
  /// session so far, from ViewRecords::events().
  void note_events(const Json& events);
  /// Appends the line that ends this session after `steps` steps of the run. `how`: "finished",
  /// "stopped", or "failed: ...".
  void end(int64_t steps, std::string_view how);

  /// Adds "sessions" to a summary that has the events of this session. Replaces "losses" and
  /// "joins" by the events of all sessions, each with the number of its "session". Replaces
  /// "replayed_steps" and "lost_s" by the sums over all sessions.
  void add_to(Json& summary) const;

 private:
  void read();
  void end_interrupted();
  void append(const Json& line);

  const Options options_;
  Log& log_;
  const std::string begun_;        ///< start of this session, from time_of_day()
  Json sessions_ = Json::array();  ///< the last one is this session, once it has begun
  bool has_begun_ = false, warned_ = false;
};

}  // namespace poseidon::trainer
