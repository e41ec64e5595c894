// Tests how cuDNN's plans are built and executed. Fakes replace cuDNN's graph and plan.

#include "layers/cuda/runtime/plan_execution.h"

#include <doctest/doctest.h>

#include <deque>

#include "tests/support/error_of.h"
#include "tests/support/warning_log.h"

using namespace poseidon;
using layers::cuda::PlanExecution;
using layers::cuda::ReloadWarning;

namespace {

/// A plan whose executions and reloads have the given results, and the calls that it receives.
struct FakePlan {
  std::deque<std::string> executions, reloads;
  std::string calls = {};

  static std::string next(std::deque<std::string>& results) {
    REQUIRE(!results.empty());
    std::string result = results.front();
    results.pop_front();
    return result;
  }
  void run(PlanExecution& execution) {
    execution.run(
        "[convolution 'a']",
        [this] {
          calls += "execute ";
          return next(executions);
        },
        [this] {
          calls += "reload ";
          return next(reloads);
        });
  }
};

/// A cuDNN graph that records how its operations are built.
struct FakeGraph {
  std::string build_operation_graph() { return calls += "build"; }
  std::string build_operation_graph(const int* handle) {
    return calls += text("build with handle ", *handle);
  }
  void set_device_properties(const std::string& properties) { calls += properties + ", "; }

  std::string calls = {};
};

}  // namespace

TEST_CASE("plans: operations are built for the handle, or without a handle for the properties") {
  const int handle = 7;
  FakeGraph with, without;
  CHECK(layers::cuda::build_operations(with, &handle, std::string("H200")) ==
        "build with handle 7");
  CHECK(layers::cuda::build_operations(without, static_cast<const int*>(nullptr),
                                       std::string("H200")) == "H200, build");
}

TEST_CASE("plans: only a failed first execution reloads the plan, and one warning reports it") {
  WarningLog log;
  const auto warning = std::make_shared<ReloadWarning>(&log);
  PlanExecution first(warning), second(warning), third(warning);
  FakePlan works{.executions = {"", "illegal"}, .reloads = {}};
  works.run(first);
  CHECK(error_of<RunError>([&] { works.run(first); }) == "[convolution 'a']: illegal");
  CHECK(works.calls == "execute execute ");
  CHECK(log.lines() == "");
  FakePlan reloads{.executions = {"no code", "", ""}, .reloads = {""}};
  reloads.run(second);
  reloads.run(second);
  CHECK(reloads.calls == "execute reload execute execute ");
  FakePlan reloads_too{.executions = {"no code", ""}, .reloads = {""}};
  reloads_too.run(third);
  CHECK(log.lines() ==
        "[convolution 'a']: cuDNN could not execute the plan (no code); the plan works after a "
        "reload from its serialized form; further reloads are not reported");
}

TEST_CASE("plans: the message of a plan that also fails after its reload has both errors") {
  WarningLog log;
  const auto warning = std::make_shared<ReloadWarning>(&log);
  FakePlan fails{.executions = {"no code", "no memory"}, .reloads = {""}};
  PlanExecution execution(warning);
  CHECK(error_of<RunError>([&] { fails.run(execution); }) ==
        "[convolution 'a']: no code; after a reload of the plan: no memory");
  FakePlan rejected{.executions = {"no code"}, .reloads = {"unknown format"}};
  PlanExecution another(warning);
  CHECK(error_of<RunError>([&] { rejected.run(another); }) ==
        "[convolution 'a']: no code; reload of the plan: unknown format");
  CHECK(log.lines() == "");
}
