#pragma once

#include <algorithm>
#include <cctype>
#include <functional>
#include <sstream>
#include <utility>

#include "tests/apps/program.h"

/// Inspects processes in /proc.
namespace poseidon::apps {

/// A process that a test observes.
struct Process {
  pid_t pid = 0;
  std::string name;  ///< "worker 1", "the coordinator"
  std::filesystem::path log;
};

/// The arguments of a process, from /proc/PID/cmdline.
inline std::vector<std::string> command_of(pid_t pid) {
  std::istringstream all(trainer::read_text("/proc/" + std::to_string(pid) + "/cmdline"));
  std::vector<std::string> words;
  for (std::string word; std::getline(all, word, '\0');) words.push_back(word);
  return words;
}

inline std::string word_after(const std::vector<std::string>& words, const std::string& flag) {
  const auto at = std::find(words.begin(), words.end(), flag);
  return at == words.end() || at + 1 == words.end() ? "" : *(at + 1);
}

/// State letter and parent of a process. State 'X': there is no such process.
inline std::pair<char, pid_t> status_of(pid_t pid) {
  const std::string stat = trainer::read_text("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = stat.rfind(')');
  if (end == std::string::npos) return {'X', 0};
  std::istringstream rest(stat.substr(end + 1));
  char state = 'X';
  pid_t parent = 0;
  rest >> state >> parent;
  return {state, parent};
}

/// Whether a process has ended. A zombie counts: its parent may be stopped and not wait for it.
inline bool has_ended(pid_t pid) {
  const char state = status_of(pid).first;
  return state == 'X' || state == 'Z';
}

inline std::vector<Process> members_of(pid_t parent, const std::filesystem::path& run) {
  std::vector<Process> members;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (!std::all_of(number.begin(), number.end(), [](unsigned char c) { return isdigit(c); }))
      continue;
    const pid_t pid = std::stoi(number);
    if (status_of(pid).second != parent) continue;
    const std::vector<std::string> words = command_of(pid);
    const std::string rank = word_after(words, "--rank");
    if (rank.empty() || word_after(words, "--coordinator").empty()) continue;
    const std::string role = words[0].ends_with("poseidon-worker") ? "worker" : "server";
    members.push_back({pid, role + " " + rank, run / "logs" / (role + "-" + rank + ".log")});
  }
  return members;
}

inline bool within(double seconds, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Whether a process listens at "127.0.0.1:PORT".
inline bool is_listening(const std::string& address) {
  const std::string port = address.substr(address.rfind(':') + 1);
  char wanted[16];
  std::snprintf(wanted, sizeof wanted, "0100007F:%04X", std::stoi(port));
  std::istringstream table(trainer::read_text("/proc/net/tcp"));
  for (std::string line; std::getline(table, line);)
    if (line.find(std::string(wanted) + " 00000000:0000 0A") != std::string::npos) return true;
  return false;
}

}  // namespace poseidon::apps
