// LeNet on real processes: the bits do not depend on the assignment of shards, on the schemes of
// the plan, or on delays of processes.

#include <dirent.h>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "core/json.h"
#include "tests/apps/program.h"
#include "tests/support/folders.h"
#include "trainer/state/safetensors.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

const std::string kLenet = test::source_folder() + "/configs/lenet-digits.json";

std::vector<std::string> words_of(const fs::path& output, int workers, int servers, int steps,
                                  const std::vector<std::string>& settings) {
  std::vector<std::string> words{kLenet,      "--json", "--output",  output.string(),
                                 "--threads", "1",      "--workers", std::to_string(workers)};
  if (servers > 0) words.insert(words.end(), {"--servers", std::to_string(servers)});
  for (const std::string& setting :
       {std::string("data.global_batch=48"), std::string("data.test.samples=100"),
        std::string("cluster.logical_shards=12"), "train.steps=" + std::to_string(steps)})
    words.insert(words.end(), {"--set", setting});
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  return words;
}

Json run(const TinyJob& job, const std::string& name, int workers, int servers, int steps,
         const std::vector<std::string>& settings) {
  const fs::path output = job.folder / name;
  fs::remove_all(output);
  const Finished finished =
      Program("poseidon-train", words_of(output, workers, servers, steps, settings), job.folder)
          .wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  return Json::parse(finished.out);
}

void check_same_bits(const TinyJob& job, const std::vector<std::string>& settings) {
  const Json one = run(job, "run", 1, 0, 20, settings);
  for (const auto& [workers, servers] : {std::pair{2, 1}, {3, 2}, {4, 3}}) {
    CAPTURE(workers);
    const Json several = run(job, "run", workers, servers, 20, settings);
    CHECK(several["weights_sha256"] == one["weights_sha256"]);
    CHECK(several["train_loss"] == one["train_loss"]);
  }
}

/// Child processes of `parent`.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string words((std::istreambuf_iterator<char>(stat)), {});
    const size_t end = words.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream rest(words.substr(end + 4));
    pid_t its_parent = 0;
    rest >> its_parent;
    if (its_parent == parent) children.push_back(std::stoi(name));
  }
  return children;
}

}  // namespace

TEST_CASE("LeNet with 12 logical shards: the same bits on 1 to 4 workers, with ps and with sfb") {
  const TinyJob job;
  check_same_bits(job, {"comm.scheme=ps"});
  check_same_bits(job, {"comm.scheme=sfb"});
}

TEST_CASE("LeNet with 12 logical shards and late sums: the same bits on 1 to 4 workers") {
  const TinyJob job;
  check_same_bits(job, {"comm.scheme=ps", "comm.staleness=1"});
  check_same_bits(job, {"comm.scheme=sfb", "comm.staleness=2"});
}

TEST_CASE("LeNet with 12 logical shards: the same bits with the plan of 4 workers") {
  const TinyJob job;
  run(job, "planned", 4, 3, 1, {});
  const std::string plan = (job.folder / "planned/plan.json").string();
  const Json layers = Json::parse(read_text(plan))["layers"];
  CHECK(std::any_of(layers.begin(), layers.end(),
                    [](const Json& layer) { return layer["scheme"] == "sfb"; }));
  check_same_bits(job, {"comm.plan=" + plan});
}

TEST_CASE("ten runs in a row give the same bits") {
  const TinyJob job;
  const Json first = run(job, "run", 3, 2, 20, {});
  for (int i = 1; i < 10; ++i)
    CHECK(run(job, "run", 3, 2, 20, {})["weights_sha256"] == first["weights_sha256"]);
}

namespace {

/// Stops and continues children at random times during training.
void check_same_bits_when_delayed(const std::vector<std::string>& settings) {
  const TinyJob job;
  const Json undisturbed = run(job, "run", 3, 2, 40, settings);
  fs::remove_all(job.folder / "delayed");
  const Program program("poseidon-train", words_of(job.folder / "delayed", 3, 2, 40, settings),
                        job.folder);
  std::mt19937 random(1);
  while (fs::exists("/proc/" + std::to_string(program.process())) &&
         !fs::exists(job.folder / "delayed/summary.json")) {
    const std::vector<pid_t> children = children_of(program.process());
    if (!children.empty()) {
      const pid_t child = children[random() % children.size()];
      kill(child, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
      kill(child, SIGCONT);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
  }
  const Finished finished = Program(program).wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(Json::parse(finished.out)["weights_sha256"] == undisturbed["weights_sha256"]);
}

}  // namespace

TEST_CASE("randomly delayed processes give the same bits") { check_same_bits_when_delayed({}); }

TEST_CASE("randomly delayed processes give the same bits with late sums") {
  check_same_bits_when_delayed({"comm.staleness=2", "comm.scheme=ps"});
  check_same_bits_when_delayed({"comm.staleness=2", "comm.scheme=sfb"});
}

TEST_CASE("after 100 steps ps and sfb differ by less than 1e-5 in every tensor") {
  const TinyJob job;
  const Json ps = run(job, "ps", 4, 2, 100, {"comm.scheme=ps"});
  const Json sfb = run(job, "sfb", 4, 2, 100, {"comm.scheme=sfb"});
  const trainer::SafetensorsFile a(ps["checkpoint"].get<std::string>());
  const trainer::SafetensorsFile b(sfb["checkpoint"].get<std::string>());
  REQUIRE(a.entries().size() == 8);
  for (const auto& entry : a.entries()) {
    const std::vector<float> left = a.read(entry), right = b.read(*b.find(entry.name));
    double difference = 0, length = 0;
    for (size_t i = 0; i < left.size(); ++i) {
      difference += std::pow(static_cast<double>(left[i]) - right[i], 2);
      length += std::pow(static_cast<double>(left[i]), 2);
    }
    CAPTURE(entry.name);
    CHECK(std::sqrt(difference / length) < 1e-5);
    MESSAGE(entry.name << ": " << std::sqrt(difference / length));
  }
}
