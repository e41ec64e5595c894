#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <deque>

#include "core/error.h"
#include "tests/apps/processes.h"

/// A job whose workers and servers are daemons.
namespace poseidon::apps {

/// Whether the port can be bound: no process listens there, and no recent connection blocks it.
inline bool is_free(uint16_t port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port = htons(port);
  const bool bound = bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
  close(listener);
  return bound;
}

/// "127.0.0.1:PORT" with a port that is free now. The port is below 32768: the system assigns
/// higher ports to outgoing connections, which could use it before the test's program listens.
inline std::string free_address() {
  constexpr unsigned kFirst = 10000, kCount = 20000;
  static unsigned next = static_cast<unsigned>(getpid()) * 31;
  for (unsigned tries = 0; tries < kCount; ++tries) {
    const auto port = static_cast<uint16_t>(kFirst + next++ % kCount);
    if (is_free(port)) return "127.0.0.1:" + std::to_string(port);
  }
  throw RunError("no port of 127.0.0.1 is free");
}

/// A job of two workers and a server, with its daemons. The destructor ends the daemons.
class Cluster {
 public:
  /// `at`: the coordinator's address.
  explicit Cluster(std::string at = free_address()) : address(std::move(at)) {
    trainer::write_text(job.folder / "secret", std::string(32, 's'));
  }
  ~Cluster() {
    for (Program& daemon : daemons_) end(daemon);
  }

  Program& start(const std::string& program, const std::string& name,
                 std::vector<std::string> more = {}, const std::string& secret = "secret") {
    const std::filesystem::path folder = job.folder / name;
    std::filesystem::create_directories(folder);
    std::vector<std::string> words{"--secret-file", (job.folder / secret).string()};
    const auto has = [&](const char* option) {
      return std::find(more.begin(), more.end(), option) != more.end();
    };
    if (!has("--coordinator")) words.insert(words.end(), {"--coordinator", address});
    if (program == "poseidon-worker" && !has("--threads"))
      words.insert(words.end(), {"--threads", "1"});
    words.insert(words.end(), more.begin(), more.end());
    daemons_.push_back(Program(program, words, folder));
    return daemons_.back();
  }

  void end(Program& daemon) {
    daemon.send(SIGKILL);
    daemon.wait();
  }

  Program train(const std::string& output, const std::vector<std::string>& more = {},
                const std::string& servers = "1", const std::string& workers = "2") {
    std::filesystem::create_directories(job.folder / (output + "-words"));
    std::vector<std::string> words{(job.folder / "job.json").string(),
                                   "--workers",
                                   workers,
                                   "--servers",
                                   servers,
                                   "--listen",
                                   address,
                                   "--external",
                                   "--secret-file",
                                   (job.folder / "secret").string(),
                                   "--json",
                                   "--output",
                                   (job.folder / output).string()};
    words.insert(words.end(), more.begin(), more.end());
    return Program("poseidon-train", words, job.folder / (output + "-words"));
  }

  /// Continues a run, or one of its checkpoints.
  Program resume(const std::filesystem::path& named, const std::vector<std::string>& more = {}) {
    const std::filesystem::path folder = job.folder / "resume-words";
    std::filesystem::create_directories(folder);
    std::vector<std::string> words{"--resume",
                                   named.string(),
                                   "--listen",
                                   address,
                                   "--external",
                                   "--secret-file",
                                   (job.folder / "secret").string(),
                                   "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Program("poseidon-train", words, folder);
  }

  const trainer::TinyJob job;
  const std::string address;

 private:
  std::deque<Program> daemons_;
};

/// Whether the program prints `words` within two minutes. If not, the test's output contains the
/// program's messages.
inline bool says(const Program& program, const std::string& words) {
  const bool said = eventually([&] { return program.err().find(words) != std::string::npos; });
  if (!said) MESSAGE("not said: \"" << words << "\", but:\n" << program.err());
  return said;
}

}  // namespace poseidon::apps
