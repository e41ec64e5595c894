#include "trainer/report/run_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/digest.h"
#include "core/error.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/secret.h"
#include "core/shell_word.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRunFile = "run.json";
constexpr size_t kIdBytes = 16;
constexpr uint64_t kMaxIdBytes = 4096;

std::string make_id() {
  std::array<std::byte, kIdBytes> bytes{};
  fill_with_random_bytes(bytes);
  return hexadecimal(bytes);
}

/// The id of a run; "" if the file is missing, as in run directories of earlier versions.
std::string read_id(const fs::path& file) {
  if (!fs::exists(file)) return "";
  std::vector<std::byte> bytes;
  read_file(file, kMaxIdBytes, bytes);
  std::string id;
  read_fields(
      parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string()),
      {file.string(), ""},
      [&](Fields& fields) { fields.text("id", id, "of the run", Presence::kRequired); });
  return id;
}

bool is_half_done(const fs::path& file) { return file.extension() == ".tmp"; }

bool holds_nothing(const fs::path& folder) {
  std::error_code failure;
  const fs::directory_iterator entries(folder, failure);
  return !failure && std::ranges::all_of(entries, [](const fs::directory_entry& entry) {
    return is_half_done(entry.path());
  });
}

/// Whether `path` is a file or folder that a run creates before its first step.
bool is_made_before_first_step(const fs::path& path) {
  constexpr std::array<std::string_view, 9> kNames{kRunFile,       kClassesFile,   "run.lock",
                                                   "config.json",  "network.json", "plan.json",
                                                   "traffic.json", "console.log",  "logs"};
  std::error_code failure;
  const std::string name = path.filename().string();
  if (name == "checkpoints") return holds_nothing(path);
  if (name == "metrics.jsonl") return fs::file_size(path, failure) == 0 && !failure;
  return std::ranges::find(kNames, name) != kNames.end() ||
         name.starts_with("events.out.tfevents.") || is_half_done(path);
}

/// Whether the process that created this run directory ended before its first step. Such a
/// directory has no results.
bool is_of_run_that_did_not_begin(const fs::path& folder) {
  std::error_code failure;
  if (!fs::exists(folder / "run.lock", failure)) return false;
  const fs::directory_iterator entries(folder, failure);
  return !failure && std::ranges::all_of(entries, [](const fs::directory_entry& entry) {
    return is_made_before_first_step(entry.path());
  });
}

/// The path "runs/<name>-<date>-<time>", with the local time.
fs::path dated_path(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> when{};
  std::strftime(when.data(), when.size(), "-%Y%m%d-%H%M%S", &local);
  return fs::path("runs") / (name + when.data());
}

/// The uppermost missing folder in `path`; "" if none is missing.
fs::path uppermost_missing(fs::path path) {
  fs::path missing;
  for (path = fs::absolute(path); !fs::exists(path); path = path.parent_path()) missing = path;
  return missing;
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, bool resumed)
    : path_(std::move(path)), resumed_(resumed) {
  std::error_code failure;
  if (fs::exists(path_) && !fs::is_directory(path_))
    throw ConfigError("--output " + path_.string() + ": is a file, expected a folder");
  if (resumed || !fs::exists(path_) || fs::is_empty(path_, failure)) return;
  if (is_of_run_that_did_not_begin(path_)) return;
  throw ConfigError("--output " + path_.string() +
                    ": is not empty; name another folder, or resume "
                    "the run in it with --resume " +
                    path_.string());
}

/// mkdir succeeds in only one process, so processes that start in the same second get different
/// folders.
RunDirectory::RunDirectory(const std::string& name) {
  const fs::path first = dated_path(name);
  made_ = uppermost_missing(first);
  std::error_code failure;
  fs::create_directories(first.parent_path(), failure);
  path_ = first;
  for (int number = 1; ::mkdir(path_.c_str(), 0777) != 0; ++number) {
    if (errno == ENOENT && fs::create_directories(first.parent_path(), failure)) continue;
    if (errno != EEXIST)
      throw RunError(text(path_.string(), ": cannot be created: ", std::strerror(errno)));
    path_ = first.string() + "-" + std::to_string(number);
  }
  if (made_.empty() || made_ == fs::absolute(first)) made_ = fs::absolute(path_);
  changed_ = true;
}

RunDirectory::~RunDirectory() {
  if (is_kept() || !changed_) return;
  std::error_code ignored;
  if (!made_.empty()) {
    fs::remove_all(path_, ignored);
    // Remove the parent folders that this object created, unless they contain other files.
    for (fs::path above = fs::absolute(path_); above != made_ && !ignored;) {
      above = above.parent_path();
      fs::remove(above, ignored);
    }
    return;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored))
    fs::remove_all(entry.path(), ignored);
}

void RunDirectory::make() {
  std::error_code failure;
  if (!changed_) made_ = uppermost_missing(path_);
  changed_ = true;
  fs::create_directories(checkpoints(), failure);
  if (failure) throw RunError(checkpoints().string() + ": cannot be created: " + failure.message());
  try {
    lock_.emplace(path_);
  } catch (const ConfigError&) {
    changed_ = false;  // the files belong to another process
    throw;
  }
  tidy();
  id_ = read_id(path_ / kRunFile);
  if (!id_.empty()) return;
  id_ = make_id();
  write(kRunFile, {{"id", id_}});
}

void RunDirectory::tidy() const {
  if (!lock_ || !lock_->is_held()) return;
  remove_temporary_files(path_);
  remove_temporary_files(checkpoints());
}

void RunDirectory::check_lock() const {
  if (lock_) lock_->check();
}

void RunDirectory::write(const char* file, const Json& json) const {
  check_lock();
  write_file(path_ / file, json.dump(2) + "\n");
}

void RunDirectory::write_or_warn(const char* file, const Json& json, Log& log) const {
  try {
    write(file, json);
  } catch (const RunError& error) {
    log.warning(error.what());
  }
}

void RunDirectory::write_config(const Job& job) const {
  Json config = resolved(job.config);
  config["network"] = "network.json";
  // Store the values that were derived from the number of workers, so that the run can continue
  // with another number.
  config["cluster"]["logical_shards"] = job.config.logical_shards();
  config["data"].erase("batch_per_worker");
  config["data"]["global_batch"] = job.config.global_batch();
  write("config.json", config);
  write("network.json", job.network->json());
}

fs::path run_directory_of(const fs::path& run_or_file) {
  if (run_or_file.empty()) return {};
  if (fs::is_directory(run_or_file)) return run_or_file;
  const fs::path run = fs::absolute(run_or_file).parent_path().parent_path();
  return fs::exists(run / "config.json") ? run : fs::path();
}

fs::path job_file_of(const fs::path& run_or_file) {
  const std::string named = "--resume " + run_or_file.string();
  if (!fs::exists(run_or_file)) throw ConfigError(named + ": no such run directory or file");
  const fs::path run = run_directory_of(run_or_file);
  if (run.empty())
    throw ConfigError(named +
                      ": is not in a run directory with a config.json; name the job file too: "
                      "poseidon-train CONFIG.json --resume ...");
  if (!fs::exists(run / "config.json"))
    throw ConfigError(named + ": expected a run directory, but there is no config.json in it");
  return run / "config.json";
}

RunDirectory open_run_directory(const fs::path& output, const fs::path& resume,
                                const std::string& name) {
  const fs::path resumed = resume.empty() ? fs::path() : run_directory_of(resume);
  if (output.empty() && resumed.empty()) return RunDirectory(name);
  const fs::path path = output.empty() ? resumed : output;
  std::error_code failure;
  return RunDirectory(path, !resumed.empty() && fs::equivalent(path, resumed, failure));
}

std::string resume_command(const fs::path& folder, const RunOptions& options, int64_t step) {
  const bool goes_on_to_limit = options.max_steps && step < *options.max_steps;
  return text("poseidon-train --resume ", quoted_for_shell(folder.string()), options.resume_flags,
              goes_on_to_limit ? text(" --max-steps ", *options.max_steps) : "");
}

std::string stopped_text(int64_t step, int64_t steps, const std::string& command) {
  return text("stopped after step ", step, " of ", steps, "; to resume: ", command);
}

}  // namespace poseidon::trainer
