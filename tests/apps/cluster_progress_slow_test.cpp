// A slow worker and a worker that hangs. The slow one may take its time. The job must report the
// other one with its current activity, and its process must end.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"
#include "tests/apps/colour_images.h"
#include "tests/apps/unanswered_files.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::TinyJob;
using trainer::write_text;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> words_of(const TinyJob& job, std::vector<std::string> more) {
  std::vector<std::string> words{(job.folder / "job.json").string(),
                                 "--threads",
                                 "1",
                                 "--output",
                                 (job.folder / "run").string(),
                                 "--set",
                                 "cluster.timeout_s=3",
                                 "--set",
                                 "cluster.stall_timeout_s=2",
                                 "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("a test may take longer than the stall timeout") {
  const TinyJob job;
  Program train(
      "poseidon-train",
      words_of(job, {"--workers", "2", "--servers", "1", "--set", "data.test.samples=5000000"}),
      job.folder);
  REQUIRE(within(30, [&] { return train.err().find("begin with step") != std::string::npos; }));
  const auto begun = std::chrono::steady_clock::now();
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  CHECK(std::chrono::steady_clock::now() - begun > std::chrono::milliseconds(2500));
}

TEST_CASE("a worker that hangs in a test is named with its activity and killed") {
  const TinyJob job(kColourNetwork);
  const std::string train_images = colour_images(job.folder / "train");
  const std::string test_images = colour_images(job.folder / "test");
  Program train("poseidon-train",
                words_of(job, {"--workers", "2", "--servers", "1", "--set",
                               "data.train=" + train_images, "--set", "data.test=" + test_images,
                               "--set", "data.batch_per_worker=1", "--set", "train.steps=3000"}),
                job.folder);
  REQUIRE(within(30, [&] { return train.err().find("begin with step") != std::string::npos; }));
  const std::vector<Process> members = members_of(train.process(), job.folder / "run");
  // Worker 0 tests the first sample.
  UnansweredFiles unanswered;
  unanswered.add(job.folder / "test" / "a" / "0.ppm");
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.err.find("worker 0 (127.0.0.1:") != std::string::npos);
  CHECK(finished.err.find("stalled in step 3001: no progress for 2 s; last activity: testing, 0 of "
                          "8 batches; steps completed: 3000") != std::string::npos);
  for (const Process& each : members) {
    CAPTURE(each.name);
    CHECK(within(10, [&] { return has_ended(each.pid); }));
  }
}

TEST_CASE("a daemon whose computation hangs exits after its job has failed") {
  const TinyJob job(kColourNetwork);
  const std::string address = free_address();
  write_text(job.folder / "secret", std::string(32, 's'));
  const std::string data = colour_images(job.folder / "train");
  std::vector<Program> daemons;
  // One worker only: a second one would wait for its sums, not hang.
  for (const char* program : {"poseidon-worker", "poseidon-server"}) {
    const fs::path folder = job.folder / std::to_string(daemons.size());
    fs::create_directories(folder);
    std::vector<std::string> words{"--coordinator", address, "--secret-file",
                                   (job.folder / "secret").string()};
    if (std::string(program) == "poseidon-worker")
      words.insert(words.end(), {"--threads", "1", "--data-root", job.folder.string()});
    daemons.emplace_back(program, words, folder);
  }
  Program train("poseidon-train",
                words_of(job, {"--workers", "1", "--servers", "1", "--listen", address,
                               "--external", "--secret-file", (job.folder / "secret").string(),
                               "--set", "data.train=" + data, "--set", "data.test=null", "--set",
                               "data.batch_per_worker=1", "--set", "train.steps=10000000"}),
                job.folder);
  REQUIRE(within(30, [&] { return train.err().find("begin with step") != std::string::npos; }));
  UnansweredFiles unanswered;
  unanswered.add_all(job.folder / "train");
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.err.find(" stalled in step ") != std::string::npos);
  CAPTURE(daemons[0].err());
  REQUIRE(within(30, [&] { return has_ended(daemons[0].process()); }));
  CHECK(daemons[0].wait().err.find("; the process exits") != std::string::npos);
  CHECK_FALSE(has_ended(daemons[1].process()));
  daemons[1].send(SIGKILL);
  daemons[1].wait();
}
