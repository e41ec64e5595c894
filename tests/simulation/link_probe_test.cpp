// The link probe: measures the bandwidth between workers before the plan is made.

#include "comm/membership/link_probe.h"

#include <doctest/doctest.h>

#include <set>

#include "comm/simulation/job.h"

using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

SimulatedJobOptions job_on(double mbps, int64_t workers) {
  PlanRequest request;
  request.workers = workers;
  request.servers = 2;
  request.global_batch = workers;
  request.layers = {
      {.name = "conv", .type = "convolution", .tensors = {{"conv.weight", 400, false}}}};
  SimulatedJobOptions options{.plan = make_plan(request), .network = {}};
  options.network.bytes_per_second = mbps * 125'000;
  options.steps = 2;
  options.measures_link = true;
  return options;
}

class Frames final : public Outlet {
 public:
  void send(NodeId to, const FrameHeader& header, Payload, Priority priority) override {
    sent.push_back({to, header, priority});
  }
  struct Sent {
    NodeId to;
    FrameHeader header;
    Priority priority;
  };
  std::vector<Sent> sent;
};

constexpr NodeId kTo{Role::kWorker, 1}, kFrom{Role::kWorker, 2};
constexpr FrameHeader kLoadFrame{.kind = FrameKind::kProbe, .view = 1, .length = kSliceBytes};
constexpr FrameHeader kEchoFrame{.kind = FrameKind::kProbe, .view = 1, .chunk = 1, .length = 8};

}  // namespace

TEST_CASE("the measured link rate is within 10 % of the simulated rate") {
  for (const double mbps : {20.0, 100.0, 1000.0, 25'000.0})
    for (const int64_t workers : {2, 3, 5})
      for (const bool carries_payload : {true, false}) {
        SimulatedJobOptions options = job_on(mbps, workers);
        options.carries_payload = carries_payload;
        options.network.jitter = 200us;
        const SimulatedJobResult result = run_job(options);
        CAPTURE(mbps);
        CAPTURE(workers);
        REQUIRE(result.outcome.has_value());
        CHECK(result.outcome->finished);
        REQUIRE(result.link_mbps.has_value());
        CHECK(*result.link_mbps > 0.9 * mbps);
        CHECK(*result.link_mbps < 1.1 * mbps);
      }
}

TEST_CASE("a link measurement has a bounded duration, also on a slow link") {
  SimulatedJobOptions options = job_on(10, 2);
  const SimulatedJobResult result = run_job(options);
  CHECK(result.outcome->finished);
  CHECK(result.duration < 15s);
}

TEST_CASE("a node that fails during the link measurement is reported") {
  for (const auto kind : {Fault::Kind::kCrash, Fault::Kind::kPause})
    for (uint64_t event = 60; event < 400; event += 20) {
      SimulatedJobOptions options = job_on(1000, 3);
      options.faults = {{.kind = kind, .at_event = event, .a = {Role::kWorker, 1}}};
      const SimulatedJobResult result = run_job(options);
      CAPTURE(event);
      CHECK(result.ended);
      REQUIRE(result.outcome.has_value());
      CHECK_FALSE(result.outcome->finished);
      CHECK(result.outcome->failure.who == NodeId{Role::kWorker, 1});
      CHECK_FALSE(result.link_mbps.has_value());
    }
}

TEST_CASE("each worker receives probes from one other worker, on another host if possible") {
  const auto check_ring = [](const std::vector<std::string>& hosts, bool all_elsewhere) {
    const std::vector<uint16_t> to = probe_ring(hosts);
    CHECK(std::set(to.begin(), to.end()).size() == hosts.size());
    for (size_t rank = 0; rank < to.size(); ++rank) {
      CHECK(to[rank] != rank);
      if (all_elsewhere) CHECK(hosts[to[rank]] != hosts[rank]);
    }
  };
  check_ring({"a", "b"}, true);
  check_ring({"a", "a"}, false);
  check_ring({"a", "b", "a", "b"}, true);
  check_ring({"a", "a", "b", "c", "b", "a"}, true);
  check_ring({"a", "a", "a", "b"}, false);
}

TEST_CASE("a link rate is reported with two digits") {
  CHECK(rounded_mbps(941.7) == 940);
  CHECK(rounded_mbps(9.96) == doctest::Approx(10));
  CHECK(rounded_mbps(23'456) == 23'000);
  CHECK(rounded_mbps(0) == 0);
}

TEST_CASE("a receiver echoes probes until it has enough, and measures after the warm-up") {
  Frames frames;
  std::vector<LinkRate> told;
  LinkProbe probe({.view = 1,
                   .to = kTo,
                   .from = kFrom,
                   .warm_up_bytes = 4 * kSliceBytes,
                   .bytes = 8 * kSliceBytes},
                  frames, [&](const LinkRate& rate) { told.push_back(rate); });
  Time now{0};
  Time processor{0};
  const auto receive = [&](Time took, Time computing) {
    probe.received(kLoadFrame, now += took, processor += computing);
  };
  for (int i = 0; i < 4; ++i) receive(100ms, 90ms);
  for (int i = 0; i < 8; ++i) receive(1ms, 500us);
  REQUIRE(told.size() == 1);
  CHECK(told[0].mbps == doctest::Approx(kSliceBytes * 8e-6 / 1e-3));
  CHECK(told[0].processor_ns_per_byte == doctest::Approx(500e3 / (2.0 * kSliceBytes)));
  CHECK(frames.sent.size() == 11);
  for (const Frames::Sent& each : frames.sent) {
    CHECK(each.to == kFrom);
    CHECK(each.header.chunk == 1);
    CHECK(each.priority == kUrgent);
  }
  CHECK_FALSE(probe.destination(kFrom, kLoadFrame).accepted);
  CHECK(probe.destination(kFrom, kLoadFrame).fault == "");
}

TEST_CASE("a sender keeps one window of probes in flight") {
  Frames frames;
  LinkProbe probe({.view = 1, .to = kTo, .from = kFrom, .window_bytes = 3 * kSliceBytes}, frames,
                  [](const LinkRate&) {});
  probe.begin();
  CHECK(frames.sent.size() == 3);
  probe.received(kEchoFrame, Time{0});
  CHECK(frames.sent.size() == 4);
  for (int i = 0; i < 1000; ++i) probe.received(kEchoFrame, Time{0});
  CHECK(frames.sent.size() == 163);  // warm-up, measured frames, and one window
}

TEST_CASE("unexpected probes are rejected, outdated ones are dropped") {
  Frames frames;
  LinkProbe probe({.view = 1, .to = kTo, .from = kFrom}, frames, [](const LinkRate&) {});
  CHECK(probe.destination(kFrom, kLoadFrame).accepted);
  CHECK(probe.destination(kTo, kEchoFrame).accepted);
  CHECK(probe.destination(kTo, kLoadFrame).fault != "");
  CHECK(probe.destination(kFrom, kEchoFrame).fault != "");
  FrameHeader other = kLoadFrame;
  other.length = 17;
  CHECK(probe.destination(kFrom, other).fault != "");
  other = kLoadFrame;
  other.view = 0;
  CHECK_FALSE(probe.destination(kFrom, other).accepted);
  CHECK(probe.destination(kFrom, other).fault == "");
}
