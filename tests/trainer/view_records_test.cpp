#include "trainer/coordinator/view_records.h"

#include <doctest/doctest.h>

using namespace poseidon;
using namespace poseidon::trainer;
using namespace std::chrono_literals;

namespace {

comm::Plan plan_of(int64_t workers, int64_t servers) {
  comm::PlanRequest request;
  request.workers = workers;
  request.servers = servers;
  request.logical_shards = 4;
  request.global_batch = 4;
  request.layers = {{.name = "ip", .type = "linear", .tensors = {{"weight", 6, false}}}};
  return comm::make_plan(request);
}

comm::NodeFailure failure_of(comm::NodeId who, int64_t step) {
  return {.who = who, .address = "host:7001", .why = "silence", .step = step, .awaited = ""};
}

}  // namespace

TEST_CASE("a run without failures has one view, no failures and no repeated steps") {
  ViewRecords views;
  views.add(plan_of(2, 1), 0, 0);
  views.started(ViewRecords::Clock::now());
  Json summary;
  views.write_to(summary);
  CHECK(summary["views"] == Json::array({Json{{"first_step", 1}, {"workers", 2}, {"servers", 1}}}));
  CHECK(summary["losses"] == Json::array());
  CHECK(summary["joins"] == Json::array());
  CHECK(summary["replayed_steps"] == 0);
  CHECK(summary["lost_s"] == 0);
}

TEST_CASE("failures are listed with node, time and reason, and their downtime is summed") {
  ViewRecords views;
  const auto begun = ViewRecords::Clock::now();
  views.add(plan_of(3, 2), 0, 0);
  views.started(begun);
  views.record_failure(failure_of({comm::Role::kWorker, 1}, 7), "worker 1 failed", begun + 10s);
  // A view that ends before its first step because of another failure. The downtime continues.
  views.add(plan_of(2, 2), 6, 7);
  views.record_failure(failure_of({comm::Role::kServer, 0}, 7), "server 0 failed", begun + 11s);
  views.started(begun + 11s);
  views.add(plan_of(2, 1), 6, 6);
  views.started(begun + 13s);
  views.record_failure(failure_of({comm::Role::kWorker, 0}, 20), "worker 0 failed", begun + 20s);
  views.add(plan_of(1, 1), 18, 20);
  views.started(begun + 20500ms);
  Json summary;
  views.write_to(summary);
  REQUIRE(summary["views"].size() == 4);
  CHECK(summary["views"][1]["lost"] == Json::array({"worker 1 failed"}));
  CHECK_FALSE(summary["views"][1].contains("lost_s"));
  CHECK(summary["views"][2]["lost_s"] == 3.0);
  CHECK(summary["replayed_steps"] == 3);
  CHECK(summary["lost_s"] == 3.5);
  REQUIRE(summary["losses"].size() == 3);
  Json second = summary["losses"][1];
  CHECK(second["at_s"].get<double>() == doctest::Approx(11).epsilon(0.01));
  second.erase("at_s");
  CHECK(second == Json{{"who", "server 0"},
                       {"address", "host:7001"},
                       {"view", 2},
                       {"step", 7},
                       {"why", "server 0 failed"}});
}

TEST_CASE("joiners are listed with their view and first step") {
  ViewRecords views;
  const auto begun = ViewRecords::Clock::now();
  views.add(plan_of(2, 1), 0, 0);
  views.started(begun);
  views.admit(begun + 10s);
  views.join({comm::Role::kWorker, 2}, "host:7001");
  views.join({comm::Role::kServer, 1}, "host:7002");
  views.add(plan_of(3, 2), 12, 12);
  views.started(begun + 10250ms);
  Json summary;
  views.write_to(summary);
  REQUIRE(summary["views"].size() == 2);
  CHECK(summary["views"][1]["lost"] == Json::array());
  CHECK(summary["views"][1]["joined"] ==
        Json::array({"worker 2 (host:7001)", "server 1 (host:7002)"}));
  CHECK(summary["views"][1]["lost_s"] == 0.25);
  CHECK(summary["losses"] == Json::array());
  CHECK(summary["replayed_steps"] == 0);
  REQUIRE(summary["joins"].size() == 2);
  Json first = summary["joins"][0];
  CHECK(first["at_s"].get<double>() == doctest::Approx(10).epsilon(0.01));
  first.erase("at_s");
  CHECK(first == Json{{"who", "worker 2"}, {"address", "host:7001"}, {"view", 2}, {"step", 13}});
}

TEST_CASE("a joiner that fails before its first step is listed in the view that never started") {
  ViewRecords views;
  const auto begun = ViewRecords::Clock::now();
  views.add(plan_of(2, 1), 0, 0);
  views.started(begun);
  views.admit(begun + 1s);
  views.join({comm::Role::kWorker, 2}, "host:7001");
  views.add(plan_of(3, 1), 12, 12);
  views.record_failure(failure_of({comm::Role::kWorker, 2}, 13), "worker 2 failed", begun + 2s);
  views.add(plan_of(2, 1), 12, 12);
  views.started(begun + 3s);
  Json summary;
  views.write_to(summary);
  REQUIRE(summary["views"].size() == 3);
  CHECK_FALSE(summary["views"][1].contains("lost_s"));
  CHECK(summary["views"][2]["joined"] == Json::array());
  CHECK(summary["views"][2]["lost_s"] == 2.0);
  CHECK(summary["joins"].size() == 1);
}

TEST_CASE("workers are listed with addresses and steps, and counted") {
  using comm::Role;
  ViewRecords views;
  const auto begun = ViewRecords::Clock::now();
  views.add(plan_of(2, 1), 0, 0);
  views.started(
      begun,
      {{Role::kWorker, 0, "a:1", 0}, {Role::kWorker, 1, "b:1", 1}, {Role::kServer, 0, "c:1", 0}});
  views.record_failure(failure_of({Role::kWorker, 0}, 7), "worker 0 failed", begun);
  // The remaining worker has a new rank. A joiner gets id 2.
  views.add(plan_of(2, 1), 6, 7);
  views.started(begun, {{Role::kWorker, 0, "b:1", 1}, {Role::kWorker, 1, "a:1", 2}});
  Json summary;
  views.write_workers(summary, 20);
  CHECK(summary["workers"] == 3);
  const auto entry = [](int64_t rank, const char* address, int64_t first, int64_t last) {
    return Json{{"rank", rank}, {"address", address}, {"first_step", first}, {"last_step", last}};
  };
  CHECK(summary["computed"] ==
        Json::array({entry(0, "a:1", 1, 6), entry(0, "b:1", 1, 20), entry(1, "a:1", 7, 20)}));
}
