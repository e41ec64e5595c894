// Real daemons with a faulty coordinator, or with an attacker that has the secret; and
// poseidon-train with such a member. They must refuse wrong messages with an error text, and end by
// themselves.

#include <doctest/doctest.h>

#include <array>
#include <future>
#include <limits>
#include <random>

#include "comm/plan/plan.h"
#include "comm/wire/messages.h"
#include "tests/apps/cluster.h"
#include "tests/comm/asio_node.h"
#include "trainer/member/member_options.h"
#include "trainer/messages/facts.h"
#include "trainer/messages/job_message.h"
#include "trainer/messages/notes.h"
#include "trainer/plan/published_plan.h"
#include "trainer/plan/sync_plan.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

comm::Secret cluster_secret() { return comm::Secret(32, std::byte{'s'}); }

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// One end of a connection that sends arbitrary messages after a valid handshake.
class ScriptedPeer {
 public:
  explicit ScriptedPeer(comm::PeerIdentity self)
      : node_({.listen = "127.0.0.1:0", .self = std::move(self), .secret = cluster_secret()}) {}

  std::string address() const { return node_.address(); }
  void accept() {
    REQUIRE(node_.wait_open());
    peer_ = node_.events().opened[0].first;
  }
  void connect(const std::string& address) {
    peer_ = node_.connect(address, comm::NodeId{});  // called as a coordinator
    REQUIRE(node_.wait_open());
  }
  void say(const std::string& body) {
    const auto bytes = std::as_bytes(std::span(body));
    node_.send(peer_, {.kind = comm::FrameKind::kControl, .view = 1}, {bytes.begin(), bytes.end()},
               comm::kUrgent);
  }
  template <class Message>
  void say(const Message& message) {
    say(comm::encode_message(message));
  }
  void note(const std::string& about, const Json& content) {
    say(comm::Note{.about = about, .step = 0, .content = content});
  }
  void tensor(uint32_t key, size_t bytes) {
    node_.send(peer_, {.kind = comm::FrameKind::kTensor, .view = 1, .key = key}, comm::Bytes(bytes),
               comm::bulk_priority(0));
  }
  /// Waits for a message of this type and returns it. Fails if the other end closes the connection
  /// first.
  Json hears(const std::string& type, const std::string& about = "") {
    Json found;
    REQUIRE(node_.wait([&](const auto& events) {
      for (const auto& frame : events.frames) {
        if (frame.header.kind != comm::FrameKind::kControl) continue;
        const Json json = Json::parse(
            std::string(reinterpret_cast<const char*>(frame.body.data()), frame.body.size()));
        if (json["type"] != type || (!about.empty() && json["about"] != about)) continue;
        found = json;
        return true;
      }
      return !events.closed.empty();
    }));
    return found;
  }
  /// Waits a short time for a message of this type. The other end may have refused an earlier
  /// message.
  void may_hear(const std::string& type) {
    const std::string words = "\"type\":\"" + type + "\"";
    for (int i = 0; i < 100; ++i) {
      const auto events = node_.events();
      for (const auto& frame : events.frames)
        if (has(std::string(reinterpret_cast<const char*>(frame.body.data()), frame.body.size()),
                words))
          return;
      if (!events.closed.empty()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  comm::Node node_;
  comm::ConnectionId peer_ = 0;
};

/// The test plays the coordinator of a real job with one daemon as worker.
class WrongCoordinator {
 public:
  explicit WrongCoordinator(const std::string& program, int64_t steps = 5)
      : job(tiny.load(
            {"cluster.workers=1", "cluster.servers=1", "train.steps=" + std::to_string(steps)})),
        peer(std::in_place,
             comm::PeerIdentity{
                 .role = comm::Role::kCoordinator, .rank = 0, .view = 1, .address = ""}) {
    trainer::write_text(tiny.folder / "secret", std::string(32, 's'));
    std::vector<std::string> words{"--coordinator",
                                   peer->address(),
                                   "--secret-file",
                                   (tiny.folder / "secret").string(),
                                   "--once",
                                   "--join-timeout",
                                   "20"};
    if (program == "poseidon-worker") words.insert(words.end(), {"--threads", "1"});
    daemon.emplace(program, words, tiny.folder);
    peer->accept();
    address = peer->hears("join")["address"].get<std::string>();
  }
  ~WrongCoordinator() {
    if (!daemon) return;
    daemon->send(SIGKILL);
    daemon->wait();
  }

  void welcome() {
    peer->say(comm::Welcome{
        .rank = 0, .timeout_s = 5, .job = trainer::write_job_message(trainer::job_message(job))});
  }
  void until_prepared() {
    welcome();
    peer->hears("prepared");
  }
  Json published() const {
    return trainer::write_published_plan(
        {.plan = comm::to_json(trainer::plan_of(job, nullptr, false)),
         .steps = job.config.train.steps,
         .last_step = job.config.train.steps});
  }
  void publish(const Json& plan) {
    peer->say(
        comm::Planned{.view = 1, .roster = {{comm::Role::kWorker, 0, address}}, .plan = plan});
  }
  void until_planned() {
    until_prepared();
    publish(published());
  }
  void until_running() {
    until_planned();
    peer->hears("note", "tensors");
    peer->note("values", {{"tensors", Json::array()}});
    peer->hears("ready");
    peer->say(comm::Start{0});
    peer->hears("note", "step");
  }
  /// Closes the connection, waits until the daemon has ended by itself, and returns its messages.
  std::string words_at_end() {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    peer.reset();
    const pid_t process = daemon->process();
    CHECK(eventually([&] { return has_exited(process); }));
    const Finished finished = daemon->wait();
    daemon.reset();
    CAPTURE(finished.err);
    CHECK(finished.code >= 0);
    CHECK(finished.code <= 3);
    CHECK_FALSE(has(finished.err, "internal error"));
    return finished.err;
  }

  const trainer::TinyJob tiny;
  trainer::Job job;
  std::optional<ScriptedPeer> peer;
  std::optional<Program> daemon;
  std::string address;

 private:
  /// A zombie counts: the test has not waited for it yet.
  static bool has_exited(pid_t process) {
    const std::string stat = trainer::read_text("/proc/" + std::to_string(process) + "/stat");
    const size_t end = stat.rfind(')');
    return end == std::string::npos || stat[end + 2] == 'Z';
  }
};

struct Attack {
  const char* name;
  std::function<void(WrongCoordinator&)> act;
};

void survive(const std::string& program, const std::vector<Attack>& attacks) {
  for (const Attack& attack : attacks) {
    CAPTURE(attack.name);
    WrongCoordinator wrong(program, 1'000'000);
    attack.act(wrong);
    wrong.words_at_end();
  }
}

const std::vector<Attack>& attacks_on_all() {
  static const std::vector<Attack> kAttacks{
      {"no message", [](auto& w) { w.peer->say(std::string("\xff\x00{", 3)); }},
      {"a list", [](auto& w) { w.peer->say(std::string("[1, 2]")); }},
      {"an unknown type", [](auto& w) { w.peer->say(std::string(R"({"type": "go"})")); }},
      {"no job", [](auto& w) { w.peer->say(comm::Welcome{.rank = 0, .timeout_s = 5}); }},
      {"a plan without a job",
       [](auto& w) {
         w.peer->say(comm::Welcome{.rank = 0, .timeout_s = 5});
         w.publish(w.published());
       }},
      {"a plan too early",
       [](auto& w) {
         w.welcome();
         w.publish(w.published());
       }},
      {"a clock with a list",
       [](auto& w) {
         w.until_prepared();
         w.peer->note("clock", Json::array({1}));
       }},
      {"an unknown note",
       [](auto& w) {
         w.until_prepared();
         w.peer->note("step", Json::object());
       }},
      {"an empty plan",
       [](auto& w) {
         w.until_prepared();
         w.publish(Json::object());
       }},
      {"a plan for another number of workers",
       [](auto& w) {
         w.until_prepared();
         Json plan = w.published();
         plan["plan"]["workers"] = 2;
         for (Json& layer : plan["plan"]["layers"]) layer["scheme"] = "ps";
         w.publish(plan);
       }},
      {"a plan for another batch",
       [](auto& w) {
         w.until_prepared();
         Json plan = w.published();
         plan["plan"]["global_batch"] = 1 << 20;
         w.publish(plan);
       }},
      {"a plan of many shards",
       [](auto& w) {
         w.until_prepared();
         Json plan = w.published();
         plan["plan"]["logical_shards"] = 1 << 20;
         w.publish(plan);
       }},
      {"a plan that names a folder",
       [](auto& w) {
         w.until_prepared();
         Json plan = w.published();
         plan["run_directory"] = w.tiny.folder.string();
         w.publish(plan);
       }},
      {"tensors before the plan", [](auto& w) {
         w.until_prepared();
         w.peer->tensor(0, 64);
         w.peer->tensor(1u << 31, comm::kSliceBytes);
       }}};
  return kAttacks;
}

}  // namespace

TEST_CASE("a worker refuses wrong messages of a coordinator before the first step") {
  survive("poseidon-worker", attacks_on_all());
  survive("poseidon-worker",
          {{"no values before the plan",
            [](auto& w) {
              w.until_prepared();
              w.peer->note("values", {{"tensors", Json::array()}});
            }},
           {"values before the plan",
            [](auto& w) {
              w.until_prepared();
              w.peer->note("values", {{"tensors", {0}}});
            }},
           {"a save without a computation",
            [](auto& w) {
              w.until_prepared();
              w.peer->say(comm::Failed{{.who = {}, .address = "", .why = "no", .awaited = ""}});
              w.peer->say(comm::Save{0});
              w.peer->say(comm::Save{7});
            }},
           {"steps that have no order", [](auto& w) {
              w.until_prepared();
              Json plan = w.published();
              plan["first_step"] = 1'000'000'000;
              w.publish(plan);
            }}});
}

TEST_CASE("a server refuses wrong messages of a coordinator") {
  survive("poseidon-server", attacks_on_all());
}

TEST_CASE("a training worker survives wrong messages of a coordinator") {
  survive("poseidon-worker",
          {{"values while it runs",
            [](auto& w) {
              w.until_running();
              w.peer->note("values", {{"tensors", {0}}});
            }},
           {"a save of another step",
            [](auto& w) {
              w.until_running();
              w.peer->say(comm::Failed{{.who = {}, .address = "", .why = "no", .awaited = ""}});
              w.peer->say(comm::Save{1'000'000'000});
            }},
           {"a halt far away",
            [](auto& w) {
              w.until_running();
              w.peer->say(comm::Halt{1'000'000'000'000});
            }},
           {"dismissed", [](auto& w) {
              w.until_running();
              w.peer->say(comm::Dismissed{});
            }}});
}

TEST_CASE("a worker refuses unknown and repeated tensors") {
  for (const Json& tensors :
       {Json::array({-1}), Json::array({1'000'000}), Json::array({0, 0}), Json("all")}) {
    CAPTURE(tensors.dump());
    WrongCoordinator wrong("poseidon-worker");
    wrong.until_planned();
    wrong.peer->hears("note", "tensors");
    wrong.peer->note("values", {{"tensors", tensors}});
    wrong.peer->tensor(0, 360);
    wrong.peer->tensor(0, 360);
    wrong.words_at_end();
  }
}

TEST_CASE("a worker writes no file into a folder that the plan names") {
  WrongCoordinator wrong("poseidon-worker");
  const auto folder = wrong.tiny.folder / "checkpoints";
  std::filesystem::create_directories(folder);
  trainer::write_text(folder / "precious.tmp", "precious");
  wrong.until_prepared();
  Json plan = wrong.published();
  plan["run_directory"] = wrong.tiny.folder.string();
  wrong.publish(plan);
  CHECK(has(wrong.peer->hears("lost")["why"].get<std::string>(), "run_directory"));
  wrong.words_at_end();
  CHECK(trainer::read_text(folder / "precious.tmp") == "precious");
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
}

namespace {

/// poseidon-train with a real server, and two workers that the test plays. The workers are
/// prepared.
class WrongWorkers {
 public:
  WrongWorkers() : train(cluster.train("run")) {
    REQUIRE(says(train, "waiting for"));
    cluster.start("poseidon-server", "server", {"--once"});
    for (ScriptedPeer& worker : workers) {
      worker.connect(cluster.address);
      worker.say(comm::Join{.role = comm::Role::kWorker,
                            .address = worker.address(),
                            .facts = {{"build", trainer::build_identity()}}});
      REQUIRE_FALSE(worker.hears("welcome").is_null());
    }
  }
  void prepare(const std::string& samples) {
    for (ScriptedPeer& worker : workers) {
      worker.note(
          "device",
          {{"device", "cpu"}, {"arithmetic", "of this test"}, {"threads", 1}, {"devices", "cpu"}});
      worker.say(comm::Prepared{{{"the number of training samples", samples}}});
    }
  }
  /// Waits until poseidon-train has ended by itself, and returns its messages.
  std::string words_at_end() {
    const Finished finished = train.wait();
    CAPTURE(finished.err);
    CHECK(finished.code >= 1);
    CHECK(finished.code <= 3);
    CHECK_FALSE(has(finished.err, "internal error"));
    return finished.err;
  }

  Cluster cluster;
  Program train;
  std::array<ScriptedPeer, 2> workers{ScriptedPeer({.role = comm::Role::kWorker, .address = ""}),
                                      ScriptedPeer({.role = comm::Role::kWorker, .address = ""})};
};

}  // namespace

TEST_CASE("poseidon-train refuses a wrong number of training samples") {
  for (const char* samples : {"abc", "", "-5", "0", "12x", "99999999999999999999"}) {
    CAPTURE(samples);
    WrongWorkers wrong;
    wrong.prepare(samples);
    CHECK(has(wrong.words_at_end(), "as the number of training samples, expected an integer >= 1"));
  }
}

TEST_CASE("poseidon-train refuses notes that do not match the job") {
  const Json entry{{"name", "conv.weight"}, {"shape", {1 << 20, 1 << 11}}};
  const Json list{{"parameters", 1},
                  {"weights", Json::array({entry})},
                  {"optimizer", Json::array()},
                  {"sums", Json::array()},
                  {"sum_steps", 0}};
  const std::vector<std::pair<std::string, Json>> notes{
      {"tensors", {{"list", list}, {"choices", Json::object()}, {"threads", 1}}},
      {"tensors", {{"list", Json::array()}, {"choices", 1}, {"threads", 1}}},
      {"tensors", Json::array()},
      {"step", {{"shards", "none"}}},
      {"traffic", {{"layers", Json::array({{{"sent", 1}, {"received", 1}}})}}},
      {"trace", {{"labels", Json::array()}, {"origin_ns", 0}, {"spans", {1, 2}}}},
      {"clock", Json::array({1})},
      {"nonsense", Json::object()}};
  for (const auto& [about, content] : notes) {
    CAPTURE(about);
    CAPTURE(content.dump());
    WrongWorkers wrong;
    wrong.prepare("50");
    wrong.workers[0].hears("planned");
    wrong.workers[0].note(about, content);
    CHECK(has(wrong.words_at_end(), "worker 0"));
  }
}

namespace {

/// Replaces a random value of the message, possibly by null.
void mutate(Json& json, std::mt19937& random) {
  static const std::vector<Json> kValues{nullptr,
                                         true,
                                         -1,
                                         0,
                                         7,
                                         1e300,
                                         std::numeric_limits<int64_t>::max(),
                                         0.5,
                                         "",
                                         "abc",
                                         "ps",
                                         "sfb",
                                         Json::array(),
                                         Json::object(),
                                         Json::array({1, -2, "x"})};
  Json* at = &json;
  while (at->is_structured() && !at->empty() && random() % 5 != 0) {
    auto child = at->begin();
    std::advance(child, random() % at->size());
    if (random() % 12 == 0) {
      at->erase(child);
      return;
    }
    at = &*child;
  }
  *at = kValues[random() % kValues.size()];
}

template <class Message>
Json json_of(const Message& message) {
  return Json::parse(comm::encode_message(message));
}

/// A coordinator's messages from the welcome to the end of a job. `address`: of the worker.
std::vector<Json> whole_job(const trainer::Job& job, const std::string& address) {
  const Json plan =
      trainer::write_published_plan({.plan = comm::to_json(trainer::plan_of(job, nullptr, false)),
                                     .steps = job.config.train.steps,
                                     .last_step = job.config.train.steps,
                                     .trace = true});
  return {
      json_of(comm::Welcome{
          .rank = 0, .timeout_s = 5, .job = trainer::write_job_message(trainer::job_message(job))}),
      json_of(
          comm::Planned{.view = 1, .roster = {{comm::Role::kWorker, 0, address}}, .plan = plan}),
      json_of(comm::Note{.about = "values", .step = 0, .content = {{"tensors", Json::array()}}}),
      json_of(comm::Start{0}),
      json_of(comm::Note{.about = "clock", .step = 0, .content = {{"asked_ns", 1}}}),
      json_of(comm::HaltQuery{}),
      json_of(comm::Halt{3}),
      json_of(comm::Failed{{.who = {}, .address = "", .why = "no", .awaited = ""}}),
      json_of(comm::Save{3}),
      json_of(comm::Dismissed{})};
}

}  // namespace

TEST_CASE("a worker accepts or refuses random messages, and ends with its coordinator") {
  const trainer::TinyJob tiny;
  const trainer::Job job = tiny.load({"cluster.workers=1", "cluster.servers=1", "train.steps=4"});
  constexpr const char* kAnswers[]{"prepared", "note", "ready", "note"};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::optional<ScriptedPeer> peer(
        std::in_place,
        comm::PeerIdentity{.role = comm::Role::kCoordinator, .rank = 0, .view = 1, .address = ""});
    trainer::MemberOptions options{.coordinator = peer->address(),
                                   .secret = cluster_secret(),
                                   .join_timeout = std::chrono::seconds(20),
                                   .threads = 1};
    SilentLog log;
    auto end = std::async(std::launch::async, [&] { return run_worker(options, log); });
    peer->accept();
    std::vector<Json> script = whole_job(job, peer->hears("join")["address"].get<std::string>());
    // One message of the job is wrong. Most rounds get some way into the job.
    const size_t wrong = random() % script.size();
    mutate(script[wrong], random);
    if (random() % 4 == 0) std::swap(script[wrong], script[random() % script.size()]);
    for (size_t i = 0; i < script.size(); ++i) {
      peer->say(script[i].dump());
      if (i < std::size(kAnswers)) peer->may_hear(kAnswers[i]);
    }
    if (random() % 4 == 0) peer->tensor(static_cast<uint32_t>(random() % 12), 360);
    peer.reset();
    REQUIRE(end.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    CHECK_NOTHROW(end.get());
  }
}
