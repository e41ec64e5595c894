// Whole jobs of several processes that are small enough for sanitizer builds. They finish, end
// after a signal, or end or continue after a node failure. The log of a child contains the reports
// of its sanitizer.

#include <doctest/doctest.h>

#include "tests/apps/processes.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

/// Trains LeNet on generated digits with two workers and two servers.
Program start(const fs::path& folder, const std::string& scheme, const std::string& steps,
              const std::string& recover = "continue") {
  return {"poseidon-train",
          {test::source_folder() + "/configs/lenet-digits.json",
           "--workers",
           "2",
           "--servers",
           "2",
           "--threads",
           "1",
           "--output",
           (folder / "run").string(),
           "--set",
           "comm.scheme=" + scheme,
           "--set",
           "train.steps=" + steps,
           "--set",
           "train.log_every=1",
           "--set",
           "train.checkpoint_every=3",
           "--set",
           "cluster.recover=" + recover,
           "--set",
           "data.global_batch=4",
           "--set",
           "data.test.samples=40"},
          folder};
}

void check_clean(const fs::path& folder, const Finished& finished) {
  std::string words = finished.err;
  for (const auto& entry : fs::directory_iterator(folder / "run" / "logs"))
    words += trainer::read_text(entry.path());
  CAPTURE(words);
  CHECK(words.find("Sanitizer") == std::string::npos);
  CHECK(words.find("runtime error: ") == std::string::npos);
  CHECK(words.find("internal error: ") == std::string::npos);
}

void wait_for(const Program& train, const std::string& words) {
  REQUIRE(within(60, [&] { return train.err().find(words) != std::string::npos; }));
}

void lose(const Program& train, const fs::path& folder, const std::string& target) {
  for (const Process& each : members_of(train.process(), folder / "run"))
    if (each.name == target) kill(each.pid, SIGKILL);
}

}  // namespace

TEST_CASE("a whole job of LeNet on two workers and two servers") {
  for (const char* scheme : {"ps", "sfb"}) {
    const TinyJob place;
    const Finished finished = start(place.folder, scheme, "7").wait();
    CHECK(finished.code == 0);
    check_clean(place.folder, finished);
  }
}

TEST_CASE("a whole job of LeNet that SIGTERM ends") {
  const TinyJob place;
  Program train = start(place.folder, "ps", "1000000");
  wait_for(train, "step 4/");
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CHECK(finished.code == 0);
  check_clean(place.folder, finished);
}

TEST_CASE("a whole job of LeNet that a node failure ends") {
  for (const char* target : {"worker 1", "server 0"}) {
    const TinyJob place;
    Program train = start(place.folder, "sfb", "1000000", "stop");
    wait_for(train, "step 4/");
    lose(train, place.folder, target);
    const Finished finished = train.wait();
    CHECK(finished.code == 3);
    check_clean(place.folder, finished);
  }
}

TEST_CASE("a whole job of LeNet continues after a server fails, then after a worker fails") {
  const TinyJob place;
  Program train = start(place.folder, "auto", "1000000");
  wait_for(train, "step 4/");
  lose(train, place.folder, "server 0");
  wait_for(train, "2 workers and 1 server continue");
  lose(train, place.folder, "worker 0");
  wait_for(train, "1 worker and 1 server continue");
  const size_t so_far = train.err().size();
  REQUIRE(within(60, [&] { return train.err().find("step ", so_far) != std::string::npos; }));
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CHECK(finished.code == 0);
  check_clean(place.folder, finished);
}
