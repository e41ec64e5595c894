#include "trainer/report/run_directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/json.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kName = "run.lock";
constexpr uint64_t kMaxLockBytes = 4096;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

/// The holder in the content of a lock file, for messages: "process 812 on head".
std::string holder_in(const std::string& contents) {
  const Json json = Json::parse(contents, nullptr, false);
  if (!json.is_object() || !json.contains("pid") || !json.contains("host"))
    return "another process";
  return text("process ", json["pid"].dump(), " on ", shown(json["host"]));
}

/// Returns the holder for messages. Waits at most 0.5 s for the content of the lock file, which the
/// holder writes shortly after it has acquired the lock.
std::string await_holder(const fs::path& run) {
  std::string contents = RunDirectoryLock::text_in(run);
  for (int attempt = 0; attempt < 50 && contents.find('\n') == std::string::npos; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    contents = RunDirectoryLock::text_in(run);
  }
  return holder_in(contents);
}

int64_t fence_in(const std::string& contents) {
  const Json json = Json::parse(contents, nullptr, false);
  const bool has = json.is_object() && json.contains("fence") && json["fence"].is_number_integer();
  return has ? json["fence"].get<int64_t>() : 0;
}

}  // namespace

std::string RunDirectoryLock::text_in(const fs::path& run) {
  std::error_code failure;
  if (!fs::is_regular_file(run / kName, failure)) return "";
  std::vector<std::byte> bytes;
  try {
    read_file(run / kName, kMaxLockBytes, bytes);
  } catch (const ConfigError& error) {
    throw RunError(error.what());  // not an error of the user's input
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RunDirectoryLock::RunDirectoryLock(const fs::path& run) : run_(run) {
  const fs::path path = run / kName;
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file_.number() < 0)
    throw RunError(text(path.string(), ": cannot be written: ", std::strerror(errno)));
  if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      throw ConfigError(text(path.string(), ": cannot be locked: ", std::strerror(errno),
                             "; set --output to a folder on a file system that supports locks"));
    throw ConfigError(text(run.string(), ": another run writes here: ", await_holder(run)));
  }
  const Json json{
      {"host", host_name()}, {"pid", ::getpid()}, {"fence", fence_in(text_in(run)) + 1}};
  words_ = json.dump() + "\n";
  const bool written = ::ftruncate(file_.number(), 0) == 0 &&
                       ::pwrite(file_.number(), words_.data(), words_.size(), 0) ==
                           static_cast<ssize_t>(words_.size()) &&
                       (::fsync(file_.number()) == 0 || errno == EINVAL);
  if (!written) throw RunError(text(path.string(), ": cannot be written: ", std::strerror(errno)));
}

bool RunDirectoryLock::is_held() const {
  try {
    return text_in(run_) == words_;
  } catch (const RunError&) {
    return false;
  }
}

void RunDirectoryLock::check() const {
  const std::string found = text_in(run_);
  if (found == words_) return;
  if (found.empty()) throw RunError(text(run_.string(), ": no longer exists"));
  throw LockLost(text(run_.string(), ": was taken over by ", holder_in(found)));
}

}  // namespace poseidon::trainer
