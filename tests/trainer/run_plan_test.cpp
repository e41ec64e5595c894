// The plan of a run: the devices of workers decide whether layers may use factors.

#include "trainer/coordinator/run_plan.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/sync_plan.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

DeviceNote device_with(bool fused) {
  return {.kind = "cpu",
          .arithmetic = fused ? "v3" : "v2",
          .fused_multiply_add = fused,
          .threads = 1,
          .devices = "cpu"};
}

/// The decided plan of a job with factors on two workers with these devices.
class TwoWorkers {
 public:
  TwoWorkers(bool first_fused, bool second_fused) {
    plan.begin_from(nullptr);
    plan.add_device(0, device_with(first_fused));
    plan.add_device(1, device_with(second_fused));
    plan.decide({{"the number of training samples", "50"}}, {{0, 1}, {0}});
  }
  std::string objection_to(bool fused) const {
    return plan.objection({.node = {comm::Role::kWorker, 2},
                           .address = "",
                           .notes = {write_note(device_with(fused))}});
  }

  const TinyJob files;
  const Job job = files.load({"cluster.workers=2", "cluster.servers=1", "data.global_batch=2"});
  const RunOptions options;
  RunPlan plan{job, options};
};

}  // namespace

TEST_CASE("workers use factors if all of them have fused multiply-add, or none of them") {
  for (const bool fused : {true, false}) {
    const TwoWorkers workers(fused, fused);
    CHECK(factored_layers(workers.plan.plan()) == std::vector<std::string>{"ip"});
    CHECK(workers.plan.no_factors().empty());
  }
  const TwoWorkers unlike(true, false);
  CHECK(factored_layers(unlike.plan.plan()).empty());
  CHECK(unlike.plan.no_factors() ==
        "no layer uses sufficient factors: worker 1 has no fused multiply-add (v2), but worker 0 "
        "has");
}

TEST_CASE("a job with factors refuses a joiner with other multiply-adds") {
  const TwoWorkers fused(true, true), unfused(false, false), unlike(true, false);
  CHECK(fused.objection_to(true).empty());
  CHECK(unfused.objection_to(false).empty());
  CHECK(unlike.objection_to(false).empty());
  CHECK(fused.objection_to(false) ==
        "layers use sufficient factors, which the workers compute with fused multiply-add, and its "
        "arithmetic, v2, has none");
  CHECK(unfused.objection_to(true) ==
        "layers use sufficient factors, which the workers compute without fused multiply-add, and "
        "its arithmetic, v3, has it");
}
