// Attacks on the state machines of a coordinator and of a member by a faulty or hostile peer.

#include <doctest/doctest.h>

#include "comm/exchange/server_shard.h"
#include "comm/exchange/worker_exchange.h"
#include "comm/membership/coordinator.h"
#include "comm/membership/member.h"
#include "core/error.h"
#include "tests/comm/small_plan.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;
using namespace std::chrono_literals;

namespace {

const JobId kJob{std::byte{7}};

/// A transport that delivers nothing. Only the test advances its clock.
class StillTransport final : public Transport {
 public:
  Time now() const override { return time; }
  void present_as(const PeerIdentity& self) override { presented = self; }
  ConnectionId connect(const std::string&, const PeerIdentity&, NodeId) override {
    return ++connections_;
  }
  void send(ConnectionId, const FrameHeader& header, Payload payload, Priority) override {
    if (header.kind == FrameKind::kControl)
      said.emplace_back(reinterpret_cast<const char*>(payload.bytes.data()), payload.bytes.size());
  }
  void close(ConnectionId connection) override { closed.push_back(connection); }
  void wake_at(Time) override {}

  Time time = 1s;
  std::vector<std::string> said;  ///< bodies of sent control frames
  std::vector<ConnectionId> closed;
  PeerIdentity presented;

 private:
  ConnectionId connections_ = 0;
};

template <class Message>
void tell(Machine& machine, ConnectionId from, const Message& message, uint32_t view = 1) {
  const std::string body = encode_message(message);
  machine.received(from, {.kind = FrameKind::kControl, .view = view},
                   std::as_bytes(std::span(body)));
}

class QuietMember final : public MemberHost, public PayloadReceiver {
 public:
  void welcomed(uint16_t, const Json&) override { happened += "welcomed "; }
  void unreachable(const std::string& why) override { happened += "unreachable: " + why + " "; }
  void refused(const std::string&) override { happened += "refused "; }
  void planned(const Planned&) override { happened += "planned "; }
  void started(uint64_t) override { happened += "started "; }
  Destination destination(NodeId, const FrameHeader&) override { return Destination::dropped(); }
  std::string received(NodeId, const FrameHeader&) override { return ""; }
  void forgotten(NodeId) override {}
  void noted(const Note&) override {}
  int64_t offer_halt() override { return 0; }
  void halt(int64_t) override {}
  void concluded() override {}
  std::string awaiting(NodeId) const override { return ""; }
  int64_t step_under_way() override { return 0; }
  void failed(const NodeFailure& failure, bool) override {
    happened += "failed: " + failure.why + " ";
  }
  void save(int64_t) override { happened += "save "; }
  void dismissed() override { happened += "dismissed "; }

  std::string happened;
};

/// A worker with a connection to its coordinator. The test plays the coordinator.
struct TestMember {
  TestMember()
      : member({.role = Role::kWorker, .coordinator = "head:1", .address = "", .facts = {}},
               transport, host, host) {
    member.join();
    member.opened(
        1, {.role = Role::kCoordinator, .rank = 0, .view = 1, .job = kJob, .address = "head:1"});
  }
  template <class Message>
  void hears(const Message& message) {
    tell(member, 1, message);
  }
  StillTransport transport;
  QuietMember host;
  Member member;
};

class QuietCoordinator final : public JobPlanner, public CheckpointReceiver, public JobObserver {
 public:
  Json job() override { return Json::object(); }
  void refused(const std::string&, const std::string& why) override { refusals.push_back(why); }
  void joined(NodeId, const std::string&) override { ++members; }
  std::optional<Json> plan(const std::vector<Fact>&, const Survivors&) override {
    return Json::object();
  }
  bool can_continue(const Survivors&) override { return true; }
  std::optional<Json> plan_next_view(const Survivors&, const std::vector<Joiner>&,
                                     int64_t step) override {
    goes_on_after = step;
    return Json::object();
  }
  int64_t saved_step() override { return 4; }
  void restore() override { ++restores; }
  void started() override { running = true; }
  void noted(NodeId, const Note&) override {}
  void agreed(int64_t step, const std::vector<int64_t>&) override { agreed_steps.push_back(step); }
  std::string tensor_name(size_t) override { return "tensor"; }
  Destination destination(uint16_t, const FrameHeader&) override { return Destination::dropped(); }
  void received(uint16_t, const FrameHeader&) override {}
  void failed(const NodeFailure& failure) override { failures.push_back(failure.message()); }
  bool wants_checkpoint(int64_t) override { return wants_state; }
  void saved(uint16_t, int64_t) override {}
  void not_saved(uint16_t worker, const std::string&) override { without_state.push_back(worker); }
  void slow(NodeId, const std::string&) override {}
  void ended(const Outcome&) override { over = true; }

  int members = 0, restores = 0;
  int64_t goes_on_after = -1;
  bool running = false, wants_state = false, over = false;
  std::vector<uint16_t> without_state;
  std::vector<std::string> refusals, failures;
  std::vector<int64_t> agreed_steps;
};

/// A coordinator of at least two workers, at connections 1, 2 and so on. The test plays the
/// workers.
struct TestCoordinator {
  explicit TestCoordinator(bool recovers = false, uint16_t count = 2, uint16_t most = 0)
      : workers(count),
        coordinator({.workers = count,
                     .servers = 0,
                     .facts = {{"build", "ours"}},
                     .recovers = recovers,
                     .max_workers = most},
                    transport, {host, host, host}) {
    coordinator.begin();
    for (ConnectionId id = 1; id <= workers; ++id)
      coordinator.opened(id, {.role = Role::kWorker, .address = ""});
  }
  template <class Message>
  void hears(ConnectionId from, const Message& message) {
    tell(coordinator, from, message, coordinator.view());
  }
  void join(ConnectionId from, const std::vector<Fact>& facts = {{"build", "ours"}}) {
    hears(from, Join{.role = Role::kWorker, .address = text("host", from, ":1"), .facts = facts});
  }
  /// Another node asks to join the running job.
  void come(ConnectionId from, const std::string& address) {
    coordinator.opened(from, {.role = Role::kWorker, .address = ""});
    hears(from, Join{.role = Role::kWorker, .address = address, .facts = {{"build", "ours"}}});
  }
  /// The replica of worker 2 differs from those of the other workers after `step` steps.
  void drift(int64_t step) {
    for (ConnectionId id = 1; id <= workers; ++id)
      hears(id, Digest{.step = step, .values = {7, id == 3 ? 9 : 8}});
  }
  void begin() {
    for (ConnectionId id = 1; id <= workers; ++id) join(id);
    for (ConnectionId id = 1; id <= workers; ++id) hears(id, Prepared{{{"samples", "10"}}});
    for (ConnectionId id = 1; id <= workers; ++id) hears(id, Ready{{7, 8}});
    REQUIRE(host.running);
  }
  const uint16_t workers;
  StillTransport transport;
  QuietCoordinator host;
  Coordinator coordinator;
};

class Nowhere final : public Outlet {
 public:
  void send(NodeId, const FrameHeader&, Payload, Priority) override {}
};

Plan plan_of_two() {
  PlanRequest request;
  request.layers = small_network();
  request.workers = 2;
  request.servers = 1;
  request.global_batch = 4;
  request.scheme = SchemeRule::kPs;
  return make_plan(request);
}

}  // namespace

TEST_CASE("a member presents its rank, view and job as soon as it is welcomed") {
  TestMember lonely;
  lonely.hears(Welcome{.rank = 1});
  CHECK(name_of(lonely.transport.presented) == "worker 1");
  CHECK(lonely.transport.presented.view == 1);
  CHECK(lonely.transport.presented.job == kJob);
}

TEST_CASE("a node outside the job is refused, and its departure does not end the job") {
  TestMember lonely;
  lonely.hears(Welcome{.rank = 0, .workers = 3, .servers = 1});
  lonely.member.prepared({});
  const auto caller = [](Role role, int32_t rank) {
    return PeerIdentity{.role = role, .rank = rank, .view = 1, .job = kJob, .address = ""};
  };
  // Without a roster, any node that the job can have may be a member.
  CHECK(lonely.member.refusal(caller(Role::kWorker, 3)) == "worker 3 is not a member of this job");
  CHECK(lonely.member.refusal(caller(Role::kServer, 1)) == "server 1 is not a member of this job");
  lonely.member.opened(60, caller(Role::kWorker, 60000));
  lonely.member.opened(61, caller(Role::kWorker, 2));
  lonely.member.opened(62, caller(Role::kServer, 0));
  CHECK(lonely.member.destination(61, {.kind = FrameKind::kFactor, .length = 8}).empty());
  CHECK(lonely.transport.closed == std::vector<ConnectionId>{60});
  lonely.hears(Planned{
      .view = 1,
      .roster = {{Role::kWorker, 0, "a:1"}, {Role::kWorker, 1, "b:1"}, {Role::kServer, 0, "c:1"}}});
  CHECK(lonely.transport.closed == std::vector<ConnectionId>{60, 61});
  CHECK(lonely.member.refusal(caller(Role::kWorker, 60000)) ==
        "worker 60000 is not a member of this job");
  CHECK(lonely.member.refusal(caller(Role::kServer, 0)) == "server 0 is already connected");
  CHECK(lonely.member.refusal(caller(Role::kWorker, 1)) == "");
  lonely.member.opened(63, caller(Role::kWorker, 60000));
  CHECK(lonely.transport.closed == std::vector<ConnectionId>{60, 61, 63});
  lonely.member.closed(63, "connection closed by the peer");
  CHECK(lonely.host.happened == "welcomed planned ");
}

TEST_CASE("a member that is not prepared rejects a plan") {
  TestMember lonely;
  lonely.hears(Welcome{.rank = 0});
  lonely.hears(Planned{.view = 1, .roster = {}});
  CHECK(lonely.host.happened == "welcomed failed: it sent a plan before this node was prepared ");
}

TEST_CASE("a member obeys a refusal only until it has a plan") {
  TestMember joiner;
  joiner.hears(Welcome{.rank = 0});
  joiner.hears(Refused{"go away"});
  CHECK(joiner.host.happened == "welcomed refused ");
  TestMember lonely;
  lonely.hears(Welcome{.rank = 0});
  lonely.member.prepared({});
  lonely.hears(Planned{.view = 1, .roster = {}});
  const std::string before = lonely.host.happened;
  lonely.hears(Refused{"go away"});
  CHECK(lonely.host.happened == before);
}

TEST_CASE("premature control messages change nothing") {
  TestMember lonely;
  for (int round = 0; round < 2; ++round) {
    lonely.hears(Start{0});
    lonely.hears(Save{5});
    lonely.hears(Probe{});
    lonely.hears(HaltQuery{});
    lonely.hears(Halt{3});
    if (round == 0) lonely.hears(Welcome{.rank = 0});
  }
  lonely.hears(Welcome{.rank = 1});
  CHECK(lonely.host.happened == "welcomed ");
  CHECK(lonely.member.rank() == 0);
}

TEST_CASE("a member fails on an out-of-range timeout or an unknown message type") {
  TestMember lonely;
  lonely.hears(Welcome{.rank = 0, .timeout_s = 1e300});
  CHECK(lonely.host.happened.find("/timeout_s: expected") != std::string::npos);
  TestMember other;
  const std::string body = R"({"type": "plann"})";
  other.member.received(1, {.kind = FrameKind::kControl}, std::as_bytes(std::span(body)));
  CHECK(other.host.happened ==
        "failed: it sent an unreadable message: unknown type of a control message: \"plann\" ");
}

TEST_CASE("a node that authenticates but never requests to join is disconnected") {
  TestCoordinator crowd;
  crowd.join(1);
  for (ConnectionId id = 3; id < 603; ++id)
    crowd.coordinator.opened(id, {.role = Role::kWorker, .address = ""});
  for (int beat = 0; beat < 11; ++beat) {
    crowd.transport.time += 1s;
    for (ConnectionId id = 1; id < 603; ++id) crowd.coordinator.heard(id);
    crowd.coordinator.wake();
  }
  CHECK(crowd.transport.closed.size() == 601);  // includes the worker that did not ask to join
  CHECK(crowd.host.refusals.back() == "the node did not request to join within 10 s");
  crowd.join(2);
  CHECK(crowd.host.members == 1);
}

TEST_CASE("a join request with a role other than the authenticated one is refused") {
  TestCoordinator crowd;
  crowd.hears(1, Join{.role = Role::kServer, .address = "", .facts = {{"build", "ours"}}});
  CHECK(crowd.host.refusals ==
        std::vector<std::string>{"the node requests a role other than that of its handshake"});
}

TEST_CASE("a join request without the build, or with unknown facts, is refused") {
  TestCoordinator crowd;
  crowd.join(1, {});
  crowd.join(2, {{"build", "ours"}, {"mood", "bad"}});
  CHECK(crowd.host.members == 0);
  CHECK(crowd.host.refusals == std::vector<std::string>{"build is missing, expected ours",
                                                        "mood is bad, expected no such value"});
}

TEST_CASE("a worker that omits an expected fact fails the job") {
  TestCoordinator crowd;
  for (ConnectionId id : {1u, 2u}) crowd.join(id);
  crowd.hears(1, Prepared{{{"samples", "10"}}});
  crowd.hears(2, Prepared{});
  REQUIRE(crowd.host.failures.size() == 1);
  CHECK(crowd.host.failures[0].find("samples is missing, expected 10 as on worker 0") !=
        std::string::npos);
}

TEST_CASE("a worker far ahead with its digests is removed") {
  TestCoordinator crowd;
  crowd.begin();
  for (int64_t step = 1; step < 3000; ++step)
    crowd.hears(1, Digest{.step = step, .values = {7, 8}});
  // Its connection is closed by then. The job ends as soon as the other worker reports the failure
  // too.
  crowd.hears(2, Lost{{.who = {Role::kWorker, 0}, .address = "", .why = "it", .awaited = "a sum"}});
  CHECK(crowd.host.failures.size() == 1);
}

TEST_CASE("a digest with too many tensors does not count") {
  TestCoordinator crowd;
  crowd.begin();
  crowd.hears(1, Digest{.step = 1, .values = std::vector<int64_t>(100'000, 1)});
  crowd.hears(2, Digest{.step = 1, .values = {7, 8}});
  CHECK(crowd.host.agreed_steps.empty());
  CHECK(crowd.host.failures.empty());  // a divergence would be reported at once
}

TEST_CASE("each step's digests agree once, even if workers repeat them") {
  TestCoordinator crowd;
  crowd.begin();
  for (int64_t step = 1; step <= 10'000; ++step)
    for (const ConnectionId from : {1u, 1u, 2u, 2u})
      crowd.hears(from, Digest{.step = step, .values = {step, 8}});
  CHECK(crowd.host.agreed_steps.size() == 10'000);
  CHECK(crowd.host.failures.empty());
}

TEST_CASE("an unsolicited halt offer halts no worker") {
  TestCoordinator crowd;
  crowd.begin();
  const size_t before = crowd.transport.said.size();
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, HaltOffer{3});
  CHECK(crowd.transport.said.size() == before);
}

TEST_CASE("each worker that cannot save is asked once, and then the job ends") {
  TestCoordinator crowd;
  crowd.begin();
  crowd.host.wants_state = true;
  crowd.hears(2, Lost{{.kind = NodeFailure::Kind::kError,
                       .who = {Role::kWorker, 1},
                       .address = "",
                       .why = "inf",
                       .awaited = ""}});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, Stopped{5});
  crowd.hears(2, CannotSave{"it was not asked"});
  CHECK(crowd.host.without_state.empty());
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, CannotSave{"inf"});
  CHECK(crowd.host.without_state == std::vector<uint16_t>{0, 1});
  CHECK(crowd.host.over);
}

TEST_CASE("a worker that leaves saves its state first") {
  TestCoordinator crowd;
  crowd.begin();
  crowd.host.wants_state = true;
  crowd.hears(2, Lost{{.kind = NodeFailure::Kind::kLeft,
                       .who = {Role::kWorker, 1},
                       .address = "",
                       .why = "a signal",
                       .awaited = ""}});
  CHECK(crowd.host.failures == std::vector<std::string>{"worker 1 left in step 1: a signal"});
  crowd.hears(1, Stopped{5});
  crowd.hears(2, Stopped{6});
  CHECK(crowd.transport.said.back().find("\"save\"") != std::string::npos);
  crowd.hears(1, Saved{6});  // worker 0 was not asked to save
  CHECK_FALSE(crowd.host.over);
  crowd.hears(2, Saved{6});
  CHECK(crowd.host.over);
}

TEST_CASE("a step that a failed worker did not report is repeated if the others can revert") {
  for (const int64_t least : {4, 5}) {
    TestCoordinator crowd(true);
    crowd.begin();
    crowd.hears(1, Note{.about = "step", .step = 5, .content = Json::object()});
    crowd.hears(2, Note{.about = "step", .step = 4, .content = Json::object()});
    crowd.coordinator.closed(2, "connection closed by the peer");
    crowd.hears(1, Lost{{.kind = NodeFailure::Kind::kPeer,
                         .who = {Role::kWorker, 1},
                         .address = "",
                         .why = "connection closed by the peer",
                         .awaited = "worker 0 awaited a sum"}});
    crowd.hears(1, LeftView{.step = 5, .least = least});
    CHECK(crowd.host.goes_on_after == least);
  }
}

TEST_CASE("a job that fails after a divergence does not save diverged values") {
  TestCoordinator crowd(true, 3);
  crowd.begin();
  crowd.host.wants_state = true;
  for (ConnectionId id : {1u, 2u, 3u})
    crowd.hears(id, Digest{.step = 5, .values = {7, id == 3 ? 9 : 8}});
  crowd.hears(1, Lost{{.kind = NodeFailure::Kind::kError,
                       .who = {Role::kWorker, 0},
                       .address = "",
                       .why = "inf",
                       .awaited = ""}});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, Stopped{5});
  for (const std::string& said : crowd.transport.said)
    CHECK(said.find("\"save\"") == std::string::npos);
  CHECK(crowd.host.over);
}

TEST_CASE(
    "the coordinator announces the step to revert to after the host has read its checkpoint") {
  TestCoordinator crowd(true, 3);
  crowd.begin();
  crowd.drift(5);
  CHECK(crowd.host.restores == 0);
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, LeftView{.step = 5, .least = 5});
  CHECK(crowd.host.restores == 1);
  CHECK(crowd.host.goes_on_after == -1);
  crowd.transport.time += 1h;  // reading may take any time
  crowd.coordinator.wake();
  CHECK(crowd.host.failures.empty());
  crowd.coordinator.restored(2);
  CHECK(crowd.host.goes_on_after == 2);
}

TEST_CASE("a checkpoint that is read after the job has failed is ignored") {
  TestCoordinator crowd(true, 3);
  crowd.begin();
  crowd.drift(5);
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, LeftView{.step = 5, .least = 5});
  crowd.coordinator.report_error("the disk is gone");
  crowd.coordinator.restored(4);
  CHECK(crowd.host.goes_on_after == -1);
}

TEST_CASE("a job refuses nodes of a host on which a worker has diverged") {
  TestCoordinator crowd(true, 3, 5);
  crowd.begin();
  crowd.come(8, "host3:7");  // still opens its data when the divergence is found
  CHECK(crowd.host.refusals.empty());
  crowd.drift(5);
  REQUIRE(crowd.host.refusals.size() == 1);
  crowd.come(9, "host3:8");
  crowd.come(10, "host4:8");
  REQUIRE(crowd.host.refusals.size() == 2);
  for (const std::string& why : crowd.host.refusals)
    CHECK(why.starts_with("a worker on the node's host diverged from the other workers"));
}

TEST_CASE("a worker that has diverged in a job does not request to join it again") {
  for (const bool same_job : {true, false}) {
    StillTransport transport;
    QuietMember host;
    Member member({.role = Role::kWorker,
                   .coordinator = "head:1",
                   .address = "",
                   .facts = {},
                   .avoided = same_job ? kJob : JobId{std::byte{8}}},
                  transport, host, host);
    member.join();
    member.opened(1, {.role = Role::kCoordinator, .view = 1, .job = kJob, .address = "head:1"});
    CHECK(transport.said.empty() == same_job);
    CHECK(transport.closed.empty() != same_job);
    CHECK(host.happened == (same_job ? "unreachable: the coordinator at head:1 still runs the job "
                                       "in which this node diverged; trying again "
                                     : ""));
  }
}

TEST_CASE("control messages of a node that has not joined are limited to 64 KiB") {
  TestCoordinator crowd(true, 2, 3);
  for (const ConnectionId id : {1u, 2u, 8u})
    CHECK(crowd.coordinator.max_control_bytes(id) == 64 * 1024);
  crowd.begin();
  crowd.come(8, "host8:1");
  for (const ConnectionId id : {1u, 2u, 8u})
    CHECK(crowd.coordinator.max_control_bytes(id) == kMaxControlBytes);
  CHECK(crowd.coordinator.max_control_bytes(9) == 64 * 1024);
}

TEST_CASE("refusals of a join request with long texts stay short") {
  const std::string longer(8'000, 'x');
  const std::vector<Fact> many(2'000, Fact{"a", "b"});
  for (const Join& join : {Join{.address = longer, .facts = {{"build", "ours"}}},
                           Join{.address = "a:1", .facts = {{"build", longer}}},
                           Join{.address = "a:1", .facts = {{"build", longer.substr(0, 900)}}},
                           Join{.address = "a:1", .facts = {{longer.substr(0, 900), "b"}}},
                           Join{.address = "a:1", .facts = many}}) {
    TestCoordinator crowd;
    crowd.hears(1, join);
    REQUIRE(crowd.host.refusals.size() == 1);
    CHECK(crowd.host.refusals[0].size() < 250);
    CHECK(crowd.transport.said.back().size() < 300);
  }
  TestCoordinator crowd;
  const std::string body = "{\"type\": \"join\", \"" + longer + "\": 1}";
  crowd.coordinator.received(1, {.kind = FrameKind::kControl, .view = 1},
                             std::as_bytes(std::span(body)));
  REQUIRE(crowd.host.refusals.size() == 1);
  CHECK(crowd.host.refusals[0].size() < 400);
}

TEST_CASE("above 256 authenticated nodes without a join request, the oldest are closed") {
  TestCoordinator crowd;
  for (ConnectionId id = 10; id < 400; ++id) {
    crowd.transport.time += 1ms;
    crowd.coordinator.opened(id, {.role = Role::kWorker, .address = ""});
  }
  CHECK(crowd.transport.closed.size() == 390 + 2 - 256);
  CHECK(crowd.transport.closed[0] == 1);
  CHECK(crowd.transport.closed.back() == 10 + 390 - 256 - 1);
}

TEST_CASE("an unreadable note fails its sender, not the job") {
  TestCoordinator crowd(true, 3);
  crowd.begin();
  crowd.coordinator.report_unreadable({Role::kWorker, 2}, 7, "of another view");
  CHECK(crowd.transport.closed.empty());
  crowd.coordinator.report_unreadable({Role::kWorker, 2}, 1, "\"labels\" is missing");
  CHECK(crowd.transport.closed == std::vector<ConnectionId>{3});
  crowd.hears(1, Lost{{.who = {Role::kWorker, 2}, .address = "", .why = "it", .awaited = "sums"}});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, LeftView{.step = 0, .least = 0});
  CHECK(crowd.host.goes_on_after == 0);
  CHECK(crowd.host.failures.empty());
}

TEST_CASE("a joiner that reports progress but is not ready within 60 s is removed") {
  TestCoordinator crowd(true, 2, 3);
  crowd.begin();
  crowd.come(8, "host8:1");
  crowd.hears(8, Prepared{{{"samples", "10"}}});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, HaltOffer{3});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, Paused{3});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, LeftView{.step = 3, .least = 3});
  REQUIRE(crowd.coordinator.view() == 2);
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, Ready{{7, 8}});
  int seconds = 0;
  while (crowd.coordinator.state() == CoordinatorState::kConnecting && ++seconds < 600) {
    crowd.transport.time += 1s;
    crowd.hears(8, Progress{.doing = "building the net", .unit = ""});
    for (ConnectionId id : {1u, 2u}) crowd.coordinator.heard(id);
    crowd.coordinator.wake();
  }
  CHECK(seconds == 60);
  CHECK(crowd.transport.closed == std::vector<ConnectionId>{8});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, LeftView{.step = 3, .least = 3});
  for (ConnectionId id : {1u, 2u}) crowd.hears(id, Ready{{7, 8}});
  CHECK(crowd.coordinator.state() == CoordinatorState::kRunning);
}

TEST_CASE("member ids do not run out after 140,000 joins") {
  StillTransport transport;
  QuietCoordinator host;
  CoordinatedJob job({.workers = 2, .facts = {}}, transport, {host, host, host});
  job.joiners[7] = {.node = {Role::kWorker, 5}, .address = "host7:1"};
  uint16_t last = 1;
  for (int joined = 0; joined < 140'000; ++joined) {
    const uint16_t id = job.assign_id(Role::kWorker);
    const uint16_t next = last == 4 ? 6 : last == UINT16_MAX ? 2 : static_cast<uint16_t>(last + 1);
    REQUIRE(id == next);
    last = id;
  }
}

TEST_CASE("a member that reports itself as failed counts as failed") {
  TestCoordinator crowd(true);
  crowd.begin();
  crowd.hears(2, Lost{{.kind = NodeFailure::Kind::kPeer,
                       .who = {Role::kWorker, 1},
                       .address = "",
                       .why = "connection closed by the peer",
                       .awaited = ""}});
  crowd.hears(1, LeftView{.step = 0, .least = 0});
  CHECK(crowd.host.goes_on_after == 0);
}

TEST_CASE("a server ignores a request to forget an unknown worker") {
  const Plan plan = plan_of_two();
  Nowhere nowhere;
  ServerShard shard(plan, 0, {.view = 1}, nowhere);
  for (const uint32_t worker : {0u, 1u, 2u, 60'000u}) shard.forget(worker);
  CHECK_FALSE(
      shard
          .destination(
              60'000,
              {.kind = FrameKind::kContribution, .view = 1, .part = {0, 1}, .length = kSliceBytes})
          .accepted);
  CHECK(shard.bytes_held() == 0);
}

TEST_CASE("a sum that arrives before this worker's contribution is rejected") {
  class Memory final : public ExchangeMemory {
   public:
    std::span<float> sum(uint32_t, uint32_t, uint64_t) override { return values; }
    std::span<float> factors(uint32_t, uint32_t, uint64_t) override { return {}; }
    std::vector<float> values = std::vector<float>(1 << 20);
  } memory;
  const Plan plan = plan_of_two();
  Nowhere nowhere;
  WorkerExchange exchange(plan, 0, {.view = 1}, memory, nowhere, [](uint64_t, uint32_t) {});
  const auto bytes = static_cast<uint64_t>(plan.chunks[0].elements()) * sizeof(float);
  const FrameHeader sum{
      .kind = FrameKind::kSum, .view = 1, .part = {0, 2}, .length = std::min(bytes, kSliceBytes)};
  CHECK(exchange.destination({Role::kServer, 0}, sum).fault ==
        "sent the sum of step 0 before this worker's contribution");
  for (const Piece& piece : plan.chunks[0].pieces)
    exchange.contribute(piece.layer,
                        {.tensor = piece.tensor, .part = {0, 1}, .values = memory.values});
  CHECK(exchange.destination({Role::kServer, 0}, sum).accepted);
  FrameHeader next = sum;
  next.step = 1;
  CHECK_FALSE(exchange.destination({Role::kServer, 0}, next).accepted);
}

TEST_CASE("a plan with a chunk of too many slices is rejected") {
  PlanRequest request;
  request.layers = {linear_traffic("fc", 4096, 4096)};
  request.workers = 2;
  request.servers = 1;
  request.global_batch = 2;
  request.scheme = SchemeRule::kPs;
  Json plan = to_json(make_plan(request));
  const int64_t all = int64_t{4096} * 4096;
  plan["chunks"] = Json::array(
      {{{"server", 0},
        {"key", 0},
        {"pieces", Json::array({{{"layer", 0}, {"tensor", 0}, {"first", 0}, {"count", all}}})}}});
  for (size_t i = 1; i < request.layers[0].tensors.size(); ++i)
    plan["chunks"][0]["pieces"].push_back({{"layer", 0},
                                           {"tensor", i},
                                           {"first", 0},
                                           {"count", request.layers[0].tensors[i].elements}});
  CHECK(error_of<ConfigError>([&] {
          read_plan(plan, {"plan.json", ""}, request.layers);
        }).find("plan.json: /chunks/0/pieces: expected at most 4194304 elements, got ") == 0);
}

TEST_CASE("a second node at an address in use is refused with the name of the first one") {
  TestCoordinator crowd;
  crowd.hears(1,
              Join{.role = Role::kWorker, .address = "node1:7001", .facts = {{"build", "ours"}}});
  crowd.hears(2,
              Join{.role = Role::kWorker, .address = "node1:7001", .facts = {{"build", "ours"}}});
  CHECK(crowd.host.members == 1);
  CHECK(crowd.host.refusals ==
        std::vector<std::string>{"node1:7001 is already the address of worker 0: set a different "
                                 "--advertise on each node"});
  // The address is free again after that node has left.
  crowd.coordinator.closed(1, "connection closed by the peer");
  crowd.coordinator.opened(3, {.role = Role::kWorker, .address = ""});
  crowd.hears(3,
              Join{.role = Role::kWorker, .address = "node1:7001", .facts = {{"build", "ours"}}});
  CHECK(crowd.host.members == 2);
}

TEST_CASE("a member that fails in three attempts to prepare the job ends the job") {
  TestCoordinator crowd;
  crowd.join(1);
  crowd.join(2);
  ConnectionId last = 2;
  for (int attempt = 1; attempt < 3; ++attempt) {
    crowd.coordinator.closed(last, "no heartbeat for 10 s");
    CHECK(crowd.coordinator.state() == Coordinator::State::kGathering);
    crowd.coordinator.opened(++last, {.role = Role::kWorker, .address = ""});
    crowd.hears(last, Join{.role = Role::kWorker, .address = "b:1", .facts = {{"build", "ours"}}});
    CHECK(crowd.coordinator.state() == Coordinator::State::kPreparing);
  }
  // The first failure was on another host, so it does not count for host b.
  crowd.coordinator.closed(last, "no heartbeat for 10 s");
  CHECK(crowd.host.failures.empty());
  crowd.coordinator.opened(++last, {.role = Role::kWorker, .address = ""});
  crowd.hears(last, Join{.role = Role::kWorker, .address = "b:1", .facts = {{"build", "ours"}}});
  crowd.coordinator.closed(last, "no heartbeat for 10 s");
  CHECK(crowd.host.failures ==
        std::vector<std::string>{"worker 1 (b:1) failed before the first step: it failed in 3 "
                                 "attempts to prepare the job: no heartbeat for 10 s"});
  CHECK(crowd.host.over);
}
