// The memory that --check predicts, compared with the memory that a run uses.

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "core/json.h"
#include "tests/apps/processes.h"
#include "tests/support/folders.h"
#include "tests/support/nightly.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

/// Peak resident memory of a process so far, in bytes; 0 after it has ended.
double peak_now(pid_t pid) {
  std::istringstream status(read_text("/proc/" + std::to_string(pid) + "/status"));
  double kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes * 1024;
}

/// Peak resident memory of a process over its lifetime, in bytes.
double peak_of(pid_t pid) {
  double peak = 0;
  while (!has_ended(pid)) {
    peak = std::max(peak, peak_now(pid));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return peak;
}

std::vector<std::string> words_of(const std::string& job, const std::vector<std::string>& more) {
  std::vector<std::string> words{test::source_folder() + "/configs/" + job + ".json", "--threads",
                                 "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

double told(const std::string& job, const std::vector<std::string>& more, const fs::path& folder) {
  std::vector<std::string> words = words_of(job, more);
  words.insert(words.end(), {"--check", "--json"});
  const Finished checked = Program("poseidon-train", words, folder).wait();
  REQUIRE(checked.code == 0);
  return Json::parse(checked.out)["memory"]["total_bytes"].get<double>();
}

Program start(const std::string& job, const std::vector<std::string>& more,
              const fs::path& folder) {
  std::vector<std::string> words = words_of(job, more);
  words.insert(words.end(), {"--max-steps", "3", "--output", (folder / "run").string()});
  return {"poseidon-train", words, folder};
}

/// Prints both values and checks that they differ by less than 15 %.
void compare(const std::string& what, double told, double peak) {
  MESSAGE(what << ": told " << told / 1e6 << " MB, took " << peak / 1e6 << " MB, "
               << 100 * (told / peak - 1) << " %");
  CHECK(told > 0.85 * peak);
  CHECK(told < 1.15 * peak);
}

void compare_one_worker(const std::string& job, const std::vector<std::string>& more = {}) {
  const TinyJob place;
  const double expected = told(job, more, place.folder);
  Program run = start(job, more, place.folder);
  const double peak = peak_of(run.process());
  REQUIRE(run.wait().code == 0);
  compare(job, expected, peak);
}

/// Compares worker 0, which sends the checkpoints and so uses the most memory.
void compare_worker_of_two(const std::string& job, std::vector<std::string> more = {}) {
  const TinyJob place;
  more.insert(more.end(), {"--workers", "2"});
  const double expected = told(job, more, place.folder);
  Program run = start(job, more, place.folder);
  pid_t worker = 0;
  REQUIRE(within(60, [&] {
    for (const Process& member : members_of(run.process(), place.folder / "run"))
      if (member.name == "worker 0") worker = member.pid;
    return worker != 0;
  }));
  const double peak = peak_of(worker);
  REQUIRE(run.wait().code == 0);
  compare(job + ", a worker of two", expected, peak);
}

}  // namespace

TEST_CASE("--check predicts the memory of a run of AlexNet" * poseidon::test::nightly()) {
  compare_one_worker("alexnet-random");
}
TEST_CASE("--check predicts the memory of a run of ResNet-50") {
  compare_one_worker("resnet50-random");
}
TEST_CASE("--check predicts the memory of a run of VGG-11" * poseidon::test::nightly()) {
  compare_one_worker("vgg11-random");
}
TEST_CASE("--check predicts the memory of a run of cifar10_quick") {
  compare_one_worker("cifar10_quick-random");
}
TEST_CASE("--check predicts the memory of a run with adam and accumulation") {
  compare_one_worker("resnet50-random",
                     {"--set", "optimizer={\"type\": \"adam\", \"learning_rate\": 0.001}", "--set",
                      "cluster.logical_shards=4"});
}

TEST_CASE("--check predicts the memory of each of two workers, AlexNet" *
          poseidon::test::nightly()) {
  compare_worker_of_two("alexnet-random");
}
TEST_CASE("--check predicts the memory of each of two workers, ResNet-50" *
          poseidon::test::nightly()) {
  compare_worker_of_two("resnet50-random");
}
TEST_CASE("--check predicts the memory of each of two workers, VGG-11" *
          poseidon::test::nightly()) {
  compare_worker_of_two("vgg11-random");
}
TEST_CASE("--check predicts the memory of each of two workers, cifar10_quick") {
  compare_worker_of_two("cifar10_quick-random");
}
TEST_CASE("--check predicts the memory of each of two workers with bf16 and late sums" *
          poseidon::test::nightly()) {
  compare_worker_of_two("alexnet-random", {"--set", "comm.wire=bf16", "--set", "comm.staleness=1",
                                           "--set", "comm.scheme=ps"});
}
