#include "apps/member_program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <thread>

#include "apps/tls_options.h"
#include "core/error.h"
#include "core/mutex.h"

namespace poseidon::apps {

using trainer::MemberEnd;
using trainer::MemberOptions;

namespace {

constexpr auto kBetweenJobs = std::chrono::seconds(1);

struct Words {
  MemberOptions options;
  std::string secret_file, device;
  int64_t join_timeout = 0;
  bool once = false;
};

/// Says once what is said over and over: a daemon that is not let in now tries again and again.
class OnceLog final : public Log {
 public:
  explicit OnceLog(Log& log) : log_(log) {}
  void info(std::string_view message) override {
    if (is_new(message)) log_.info(message);
  }
  void warning(std::string_view message) override {
    if (is_new(message)) log_.warning(message);
  }

 private:
  bool is_new(std::string_view message) {
    MutexLock lock(mutex_);
    if (message == last_) return false;
    last_ = message;
    return true;
  }

  Log& log_;
  Mutex mutex_;
  std::string last_ GUARDED_BY(mutex_);
};

/// Rank variables of launchers: Slurm's, Open MPI's, and that of PMI.
int64_t rank_of_launcher() {
  for (const char* variable : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* value = std::getenv(variable)) return std::strtoll(value, nullptr, 10);
  return -1;
}

void add_options(CLI::App& app, Words& words, bool computes) {
  MemberOptions& options = words.options;
  app.add_option("--coordinator", options.coordinator, "HOST:PORT of poseidon-train")->required();
  app.add_option("--listen", options.listen, "ADDR:PORT for peers; port 0: any that is free");
  app.add_option("--advertise", options.advertise, "HOST:PORT where peers reach this one");
  app.add_option("--secret-file", words.secret_file, "file with the cluster's secret");
  add_tls_options(app, options.tls);
  app.add_flag("--insecure", options.insecure,
               "allow to listen beyond loopback without a secret or TLS");
  app.add_option("--rank", options.wanted_rank,
                 "rank to ask for; default: what srun or mpirun say, else any");
  app.add_option("--join-timeout", words.join_timeout,
                 "seconds to look for the coordinator; 0: for ever");
  app.add_flag("--once", words.once, "end after one job");
  if (!computes) return;
  app.add_option("--device", words.device, "what computes: cpu")->check(CLI::IsMember({"cpu"}));
  app.add_option("--threads", options.threads, "computing threads; 0: all cores");
  app.add_option("--data-root", options.data_root, "folder where relative paths of data begin");
}

int run(const char* name, const char* description, bool computes, int count, char** arguments,
        MemberEnd (*one_job)(const MemberOptions&, Log&)) {
  CLI::App app(description, name);
  app.set_version_flag("--version", std::string(name) + " " + POSEIDON_VERSION);
  Words words;
  add_options(app, words, computes);
  words.options.wanted_rank = rank_of_launcher();
  try {
    app.parse(count, arguments);
  } catch (const CLI::Success& success) {
    return app.exit(success, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    throw ConfigError(std::string(error.what()) + " (see " + name + " --help)");
  }
  words.options.join_timeout = std::chrono::seconds(words.join_timeout);
  if (!words.secret_file.empty()) words.options.secret = comm::read_secret(words.secret_file);
  words.options.lookup = [](std::string_view variable) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(variable).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  StandardErrorLog standard_error;
  OnceLog log(standard_error);
  while (true) {
    const MemberEnd end = one_job(words.options, log);
    if (words.once || (end == MemberEnd::kRefused && words.join_timeout > 0))
      return static_cast<int>(end);
    std::this_thread::sleep_for(kBetweenJobs);
  }
}

}  // namespace

int run_member_program(const char* name, const char* description, bool computes, int count,
                       char** words, MemberEnd (*one_job)(const MemberOptions&, Log&)) {
  const auto fail = [name](const char* message, int code) {
    std::fprintf(stderr, "%s: %s\n", name, message);
    return code;
  };
  try {
    return run(name, description, computes, count, words, one_job);
  } catch (const ConfigError& error) {
    return fail(error.what(), 2);
  } catch (const RunError& error) {
    return fail(error.what(), 1);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail((std::string("internal error: ") + error.what()).c_str(), 1);
  }
}

}  // namespace poseidon::apps
