// A worker reports a long wait for other nodes, and the end of the wait.

#include "trainer/step/arrivals.h"

#include <doctest/doctest.h>

#include <thread>

#include "trainer/step/job_failed.h"

using poseidon::trainer::Arrivals;
using poseidon::trainer::JobFailed;
using namespace std::chrono_literals;

TEST_CASE("a long wait is reported when it begins, and when an arrival ends it") {
  std::string told;
  Arrivals arrivals;
  arrivals.on_long_wait([&] { told += "begins "; }, [&] { told += "ends "; });
  arrivals.push(3);
  arrivals.wait();
  CHECK(told == "");
  CHECK(arrivals.take() == 3);
  std::jthread later([&] {
    std::this_thread::sleep_for(1500ms);
    arrivals.push(4);
  });
  arrivals.wait();
  CHECK(told == "begins ends ");
}

TEST_CASE("a long wait that the job's failure ends is not reported as ended") {
  std::string told;
  Arrivals arrivals;
  arrivals.on_long_wait([&] { told += "begins "; }, [&] { told += "ends "; });
  std::jthread later([&] {
    std::this_thread::sleep_for(1500ms);
    arrivals.set_failed("gone");
  });
  CHECK_THROWS_AS(arrivals.wait(), JobFailed);
  CHECK(told == "begins ");
}
