#include "trainer/report/run_history.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "core/error.h"
#include "core/file.h"
#include "trainer/report/run_directory_lock.h"
#include "trainer/report/time_text.h"

namespace poseidon::trainer {

namespace {

constexpr const char* kSessionsFile = "sessions.jsonl";

std::string session_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

std::string type_of_line(const Json& line) {
  const bool known = line.is_object() && line.contains("type") && line["type"].is_string();
  return known ? line["type"].get<std::string>() : "";
}

Json list_under(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_array() ? object[key] : Json::array();
}

/// Applies a line of sessions.jsonl to `sessions`, the list "sessions" of summary.json.
void take_line(Json& sessions, const Json& line) {
  const std::string type = type_of_line(line);
  if (type == "begin")
    sessions.push_back({{"begin", line.value("time", Json())},
                        {"host", line.value("host", Json())},
                        {"pid", line.value("pid", Json())},
                        {"first_step", line.value("first_step", Json())}});
  if (sessions.empty()) return;
  Json& session = sessions.back();
  if (type == "end") {
    session["end"] = line.value("time", Json());
    session["steps"] = line.value("steps", Json());
    session["how"] = line.value("how", Json());
  } else if (type == "events") {
    for (const char* key : {"losses", "joins"}) {
      Json all = list_under(session, key);
      for (const Json& event : list_under(line, key))
        if (event.is_object()) all.push_back(event);
      session[key] = std::move(all);
    }
    for (const char* key : {"replayed_steps", "lost_s"}) session[key] = line.value(key, Json());
  }
}

Json sum_over(const Json& sessions, const char* key) {
  Json sum;
  for (const Json& session : sessions) {
    if (!session.contains(key) || !session[key].is_number()) continue;
    if (sum.is_null())
      sum = session[key];
    else if (sum.is_number_integer() && session[key].is_number_integer())
      sum = sum.get<int64_t>() + session[key].get<int64_t>();
    else
      sum = sum.get<double>() + session[key].get<double>();
  }
  return sum;
}

}  // namespace

RunHistory::RunHistory(Options options, Log& log)
    : options_(std::move(options)), log_(log), begun_(time_of_day()) {
  read();
}

void RunHistory::read() {
  std::ifstream file(options_.run / kSessionsFile);
  for (std::string line; std::getline(file, line);)
    take_line(sessions_, Json::parse(line, nullptr, false));
}

void RunHistory::begin() {
  if (has_begun_) return;
  has_begun_ = true;
  end_interrupted();
  append({{"type", "begin"},
          {"time", begun_},
          {"host", session_host()},
          {"pid", ::getpid()},
          {"first_step", options_.steps_done + 1}});
}

/// Ends the previous session if its process was killed before it wrote the end. The last line of
/// metrics.jsonl has the last step of that session.
void RunHistory::end_interrupted() {
  if (sessions_.empty() || sessions_.back().contains("how")) return;
  const Json& last = options_.last_line;
  const bool known = last.is_object() && last.contains("time") && last.contains("step");
  append({{"type", "end"},
          {"time", known ? last["time"] : Json()},
          {"steps", known ? last["step"] : Json()},
          {"how", "interrupted"}});
}

/// Writes only new events, so that the size of the file is linear in the number of events.
void RunHistory::note_events(const Json& events) {
  begin();
  Json line{{"type", "events"},
            {"replayed_steps", events.value("replayed_steps", Json(0))},
            {"lost_s", events.value("lost_s", Json(0.0))}};
  for (const char* key : {"losses", "joins"}) {
    const Json all = list_under(events, key);
    const size_t known = list_under(sessions_.back(), key).size();
    line[key] = Json::array();
    for (size_t i = known; i < all.size(); ++i) line[key].push_back(all[i]);
  }
  append(line);
}

void RunHistory::end(int64_t steps, std::string_view how) {
  begin();
  append({{"type", "end"}, {"time", time_of_day()}, {"steps", steps}, {"how", how}});
}

/// Appends a line to sessions.jsonl. A failed write only causes one warning, unless another process
/// now owns the run.
void RunHistory::append(const Json& line) {
  take_line(sessions_, line);
  try {
    options_.before_writing();
    AppendFile(options_.run / kSessionsFile).append(line.dump() + "\n");
  } catch (const LockLost&) {
    throw;
  } catch (const RunError& error) {
    if (!warned_) log_.warning(text(error.what(), "; the record of this session will have gaps"));
    warned_ = true;
  }
}

void RunHistory::add_to(Json& summary) const {
  summary["sessions"] = sessions_;
  for (const char* key : {"losses", "joins"}) {
    Json all = Json::array();
    bool known = false;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      known = known || sessions_[i].contains(key);
      for (Json event : list_under(sessions_[i], key)) {
        event["session"] = i + 1;
        all.push_back(std::move(event));
      }
    }
    if (known) summary[key] = std::move(all);
  }
  for (const char* key : {"replayed_steps", "lost_s"})
    if (Json sum = sum_over(sessions_, key); !sum.is_null()) summary[key] = std::move(sum);
}

}  // namespace poseidon::trainer
