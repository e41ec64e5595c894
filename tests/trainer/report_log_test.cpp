// Reports that a worker keeps in case its coordinator has not recorded them.

#include "trainer/member/report_log.h"

#include <doctest/doctest.h>

#include "comm/wire/texts.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

using Messages = std::vector<std::string>;

void add_step(ReportLog& log, int64_t step) {
  log.add(step, false, comm::payload_of(text("step ", step)));
}
void add_test(ReportLog& log, int64_t step) {
  log.add(step, true, comm::payload_of(text("test ", step)));
}

}  // namespace

TEST_CASE("acknowledged reports are dropped, except the test of the last acknowledged step") {
  ReportLog log;
  for (int64_t step = 1; step <= 3; ++step) {
    add_step(log, step);
    add_test(log, step);
  }
  log.acknowledge(2);
  CHECK(log.messages(3) == Messages{"test 2", "step 3", "test 3"});
  CHECK(log.messages(2) == Messages{"test 2"});
  log.acknowledge(1);
  CHECK(log.messages(9).size() == 3);
  log.acknowledge(4);
  CHECK(log.messages(9).empty());
}

TEST_CASE("reports of an earlier view are not kept") {
  ReportLog log;
  add_step(log, 4);
  log.clear();
  add_step(log, 4);
  CHECK(log.messages(4) == Messages{"step 4"});
}

TEST_CASE("unacknowledged reports take bounded memory: the oldest are dropped first") {
  ReportLog log;
  const auto large = comm::payload_of(std::string(ReportLog::kMaxBytes / 8, 'x'));
  for (int64_t step = 1; step <= 100; ++step) log.add(step, false, large);
  add_step(log, 101);
  const Messages kept = log.messages(101);
  CHECK(kept.size() == 8);
  CHECK(kept.back() == "step 101");
}
