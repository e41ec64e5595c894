#include "trainer/report/run_directory.h"

#include <array>
#include <ctime>

#include "core/digest.h"
#include "core/error.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/secret.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRunFile = "run.json";
constexpr size_t kIdBytes = 16;
constexpr uint64_t kMostIdBytes = 4096;

std::string make_id() {
  std::array<std::byte, kIdBytes> bytes{};
  fill_with_random_bytes(bytes);
  return hexadecimal(bytes);
}

/// "" where there is none, as in the folder of a run that was begun by an earlier version.
std::string read_id(const fs::path& file) {
  if (!fs::exists(file)) return "";
  std::vector<std::byte> bytes;
  read_file(file, kMostIdBytes, bytes);
  std::string id;
  read_fields(
      parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string()),
      {file.string(), ""},
      [&](Fields& fields) { fields.text("id", id, "of the run", Presence::kRequired); });
  return id;
}

/// The uppermost folder on the way to `path` that is not there; "" when all are.
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
  if (!resumed && fs::exists(path_) && !fs::is_empty(path_, failure))
    throw ConfigError("--output " + path_.string() +
                      ": is not empty; name another folder, or go on "
                      "with the run in it by --resume " +
                      path_.string());
}

RunDirectory::~RunDirectory() {
  if (kept_ || resumed_ || !lock_) return;
  std::error_code ignored;
  if (!made_.empty()) {
    fs::remove_all(path_, ignored);
    // Folders above it that were made for it, unless somebody else uses them too.
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
  const fs::path missing = uppermost_missing(path_);
  fs::create_directories(checkpoints(), failure);
  if (failure) throw RunError(checkpoints().string() + ": cannot be made: " + failure.message());
  lock_.emplace(path_);
  made_ = missing;
  tidy();
  id_ = read_id(path_ / kRunFile);
  if (!id_.empty()) return;
  id_ = make_id();
  write(kRunFile, {{"id", id_}});
}

void RunDirectory::tidy() const {
  if (!lock_ || !lock_->is_held()) return;
  remove_half_done(path_);
  remove_half_done(checkpoints());
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
  // What follows from the number of workers is written out, so that the run can go on with another.
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
                      ": lies in no run directory, which has the job in config.json; expected the "
                      "job file before it: poseidon-train CONFIG.json --resume ...");
  if (!fs::exists(run / "config.json"))
    throw ConfigError(named + ": expected a run directory, but there is no config.json in it");
  return run / "config.json";
}

RunDirectory open_run_directory(const fs::path& output, const fs::path& resume,
                                const std::string& name) {
  const fs::path resumed = resume.empty() ? fs::path() : run_directory_of(resume);
  const fs::path path = !output.empty()    ? output
                        : !resumed.empty() ? resumed
                                           : default_run_directory(name);
  std::error_code failure;
  return RunDirectory(path, !resumed.empty() && fs::equivalent(path, resumed, failure));
}

fs::path default_run_directory(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char when[32];
  std::strftime(when, sizeof when, "-%Y%m%d-%H%M%S", &local);
  const fs::path path = fs::path("runs") / (name + when);
  for (int number = 2;; ++number) {
    const fs::path candidate =
        number == 2 ? path : fs::path(path.string() + "-" + std::to_string(number - 1));
    if (!fs::exists(candidate)) return candidate;
  }
}

std::string stopped_text(int64_t step, int64_t steps, const fs::path& folder) {
  return text("stopped after step ", step, " of ", steps, "; to go on: poseidon-train --resume ",
              folder.string());
}

}  // namespace poseidon::trainer
