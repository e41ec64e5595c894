#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/error_of.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/run/run.h"

/// A job that trains in milliseconds, in a temporary folder. The destructor removes the folder.
namespace poseidon::trainer {

namespace fs = std::filesystem;

/// Convolution, batch norm and dropout: all kinds of state and random numbers.
inline constexpr const char* kTinyNetwork = R"({
  "name": "tiny", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv", "type": "convolution", "outputs": 5, "kernel": 3, "bias": false,
     "weight_filler": {"type": "xavier"}},
    {"name": "bn", "type": "batch_norm"},
    {"name": "relu", "type": "relu"},
    {"name": "drop", "type": "dropout"},
    {"name": "ip", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
    {"name": "loss", "type": "softmax_loss"}]})";

inline constexpr const char* kTinyJob = R"({
  "name": "tiny", "network": "tiny_network.json",
  "data": {
    "train": {"type": "random", "channels": 2, "height": 6, "width": 6, "classes": 3,
              "samples": 50, "transform": {"scale": 0.01}},
    "test": {"type": "random", "channels": 2, "height": 6, "width": 6, "classes": 3,
             "samples": 21, "seed": 2},
    "batch_per_worker": 8},
  "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.001,
                "schedule": {"type": "cosine", "warmup": 3}},
  "train": {"steps": 9, "seed": 3, "log_every": 2},
  "device": {"threads": 1},
  "cluster": {"recover": "stop"}})";

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

inline void write_text(const fs::path& path, const std::string& words) {
  std::ofstream(path, std::ios::binary) << words;
}

/// The loss of each training line in a run's metrics.
inline std::vector<double> losses_of(const fs::path& run) {
  std::vector<double> losses;
  std::istringstream in(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (const Json json = Json::parse(line); json["type"] == "train")
      losses.push_back(json["loss"].get<double>());
  return losses;
}

class TinyJob {
 public:
  explicit TinyJob(const char* network = kTinyNetwork) {
    static int number = 0;
    folder = fs::temp_directory_path() /
             ("poseidon-test-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    fs::create_directories(folder);
    write_text(folder / "tiny_network.json", network);
    write_text(folder / "job.json", kTinyJob);
  }
  ~TinyJob() {
    std::error_code ignored;  // a program of a failed test may still write to the folder
    fs::remove_all(folder, ignored);
  }
  TinyJob(const TinyJob&) = delete;
  TinyJob& operator=(const TinyJob&) = delete;

  Job load(std::vector<std::string> overrides = {}) const {
    SilentLog log;
    return load_job({.file = folder / "job.json",
                     .overrides = std::move(overrides),
                     .lookup = [](std::string_view) { return std::nullopt; }},
                    log);
  }

  /// Trains with output to `folder / output`, and returns the summary.
  Json run(const std::string& output, std::vector<std::string> overrides = {},
           RunOptions options = {}) const {
    Console console(Console::Mode::kSilent);
    if (!output.empty()) options.output = folder / output;
    return train(load(std::move(overrides)), options, console);
  }

  fs::path folder;
};

}  // namespace poseidon::trainer
