// Daemons that do not fit the job: their messages, those of poseidon-train, and how they end.

#include <doctest/doctest.h>

#include "comm/asio/driver.h"
#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/inbox.h"
#include "core/isa.h"
#include "tests/apps/cluster.h"
#include "trainer/member/member_options.h"
#include "trainer/messages/facts.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::write_text;
namespace fs = std::filesystem;

namespace {

std::string big_endian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t number : numbers)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

/// MNIST's files with 40 tiny images. `seed` selects the content.
void make_data(const fs::path& folder, int seed) {
  constexpr uint32_t kSamples = 40, kSide = 6;
  fs::create_directories(folder);
  std::string images = big_endian({0x803, kSamples, kSide, kSide});
  std::string labels = big_endian({0x801, kSamples});
  for (uint32_t i = 0; i < kSamples * kSide * kSide; ++i)
    images += static_cast<char>(i * static_cast<uint32_t>(seed + 1) % 251);
  for (uint32_t i = 0; i < kSamples; ++i)
    labels += static_cast<char>((i + static_cast<uint32_t>(seed)) % 10);
  write_text(folder / "train-images-idx3-ubyte", images);
  write_text(folder / "train-labels-idx1-ubyte", labels);
}

constexpr const char* kNetwork = R"({
  "name": "tiny", "input": {"channels": 1, "height": 6, "width": 6},
  "layers": [{"name": "ip", "type": "linear", "outputs": 10},
             {"name": "loss", "type": "softmax_loss"}]})";

constexpr const char* kJob = R"({
  "name": "tiny", "network": "tiny_network.json",
  "data": {"train": {"type": "mnist", "path": "digits", "split": "train"}, "batch_per_worker": 4},
  "optimizer": {"type": "sgd", "learning_rate": 0.01}, "train": {"steps": 5}})";

/// A cluster whose workers have separate data, each under a separate --data-root.
class DataCluster : public Cluster {
 public:
  DataCluster() {
    write_text(job.folder / "tiny_network.json", kNetwork);
    write_text(job.folder / "job.json", kJob);
  }
  /// Starts a worker with --once. `seed` -1: the worker has no data.
  Program& start_worker(const std::string& name, int seed, const std::string& rank) {
    const fs::path root = job.folder / ("data-" + name);
    fs::create_directories(root);
    if (seed >= 0) make_data(root / "digits", seed);
    return start("poseidon-worker", name, {"--once", "--rank", rank, "--data-root", root.string()});
  }
};

/// A node that asks to join with the given facts.
class Applicant final : public comm::MemberHost, public comm::PayloadReceiver {
 public:
  Applicant(const trainer::MemberOptions& options, std::vector<comm::Fact> facts)
      : options_(options),
        transport_(trainer::make_transport(options, comm::Role::kWorker, log_,
                                           [](std::exception_ptr) {})) {
    comm::Member::Options joining =
        trainer::joining_options(options, comm::Role::kWorker, *transport_);
    joining.facts = std::move(facts);
    member_ = std::make_unique<comm::Member>(joining, *transport_, *this, *this);
  }
  /// The coordinator's answer.
  std::string answer() {
    trainer::join_and_run(options_, *transport_, *member_, inbox_, end_, log_);
    return answer_;
  }

  void welcomed(uint16_t, const Json&) override { over("welcome"); }
  void refused(const std::string& why) override { over(why); }
  void planned(const comm::Planned&) override {}
  void started(uint64_t) override {}
  comm::Destination destination(comm::NodeId, const comm::FrameHeader&) override {
    return comm::Destination::dropped();
  }
  std::string received(comm::NodeId, const comm::FrameHeader&) override { return ""; }
  void forgotten(comm::NodeId) override {}
  void noted(const comm::Note&) override {}
  int64_t offer_halt() override { return 0; }
  void halt(int64_t) override {}
  void concluded() override {}
  std::string awaiting(comm::NodeId) const override { return ""; }
  int64_t step_under_way() override { return 0; }
  void failed(const comm::NodeFailure&, bool) override {}
  void save(int64_t) override {}
  void dismissed() override {}

 private:
  void over(const std::string& answer) {
    inbox_.post([this, answer] {
      answer_ = answer;
      end_ = trainer::MemberEnd::kDone;
    });
  }

  const trainer::MemberOptions options_;
  SilentLog log_;
  poseidon::Inbox inbox_;
  std::optional<trainer::MemberEnd> end_;
  std::string answer_;
  std::unique_ptr<comm::AsioTransport> transport_;
  std::unique_ptr<comm::Member> member_;
};

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("each worker reads its data under its own --data-root; poseidon-train needs none") {
  DataCluster cluster;
  Program& a = cluster.start_worker("a", 1, "0");
  Program& b = cluster.start_worker("b", 1, "1");
  Program& server = cluster.start("poseidon-server", "server", {"--once"});
  const Finished finished = cluster.train("run").wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  for (Program* daemon : {&a, &b, &server}) CHECK(daemon->wait().code == 0);
}

TEST_CASE("a worker without the data names the path, and the job ends before its first step") {
  DataCluster cluster;
  Program train = cluster.train("run");
  Program& a = cluster.start_worker("a", 1, "0");
  Program& server = cluster.start("poseidon-server", "server", {"--once"});
  // A daemon that has not joined when the job ends waits for the next job.
  REQUIRE(says(train, "waiting for 1 worker\n"));
  Program& b = cluster.start_worker("b", -1, "1");
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "worker 1 (127.0.0.1:"));
  CHECK(has(finished.err, " failed before the first step: "));
  CHECK(has(finished.err, "\"digits\" does not exist under this node's data root"));
  for (Program* daemon : {&a, &b, &server}) CHECK(daemon->wait().code == 1);
}

TEST_CASE("a daemon with other data, or none, does not join a running job, which continues") {
  DataCluster cluster;
  for (const char* rank : {"0", "1"}) cluster.start_worker(rank, 1, rank);
  cluster.start("poseidon-server", "server", {"--once"});
  Program train =
      cluster.train("run", {"--set", "train.steps=3000", "--set", "cluster.max_workers=4", "--set",
                            "cluster.logical_shards=4"});
  REQUIRE(says(train, "begin with step"));
  const Finished other = cluster.start_worker("c", 2, "2").wait();
  CHECK(other.code == 2);
  CHECK(has(other.err, "not admitted: the training set is "));
  CHECK(has(other.err, " as on worker 0"));
  const Finished without = cluster.start_worker("d", -1, "2").wait();
  CHECK(has(without.err, "\"digits\" does not exist under this node's data root"));
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  CHECK(Json::parse(finished.out)["views"].size() == 1);
}

TEST_CASE("a worker does not read or reveal files outside its data root") {
  for (const std::string path : {"/beside", "/nothing", "../beside", "link", "${HOME}/beside"}) {
    CAPTURE(path);
    DataCluster cluster;
    make_data(cluster.job.folder / "beside", 1);
    fs::create_directories(cluster.job.folder / "data-a");
    fs::create_symlink(cluster.job.folder / "beside", cluster.job.folder / "data-a" / "link");
    const std::string given =
        path[0] == '/' ? (cluster.job.folder / path.substr(1)).string() : path;
    cluster.start_worker("a", 1, "0");
    cluster.start("poseidon-worker", "b", {"--once", "--rank", "1", "--data-root", ""});
    cluster.start("poseidon-server", "server", {"--once"});
    const Finished finished = cluster.train("run", {"--set", "data.train.path=" + given}).wait();
    CAPTURE(finished.err);
    CHECK(finished.code == 1);
    const std::string why = path[0] == '$'
                                ? " cannot be opened: expected no variable except ${POSEIDON_DATA}"
                                : " does not exist under this node's data root";
    const std::string none = " cannot be opened: this node has no data root";
    CHECK((has(finished.err, why) || has(finished.err, none)));
  }
}

TEST_CASE("workers with different training sets end the job before its first step") {
  DataCluster cluster;
  Program& a = cluster.start_worker("a", 1, "0");
  Program& b = cluster.start_worker("b", 2, "1");
  cluster.start("poseidon-server", "server", {"--once"});
  const Finished finished = cluster.train("run").wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "worker 1 (127.0.0.1:"));
  CHECK(has(finished.err, "the training set is "));
  CHECK(has(finished.err, " as on worker 0"));
  CHECK(a.wait().code == 1);
  CHECK(b.wait().code == 1);
}

namespace {

/// Runs a job with two workers. Its linear layer would use factors on equal workers. Worker 1 uses
/// the instruction set `isa`. With AVX-512 oneDNN has fewer instructions there.
Finished train_unlike(Cluster& cluster, Isa isa, const std::vector<std::string>& more) {
  cluster.start("poseidon-worker", "a", {"--once", "--rank", "0"});
  std::vector<std::string> fewer{"--once", "--rank", "1"};
  if (isa != poseidon::isa()) fewer.insert(fewer.end(), {"--isa", std::string(name_of(isa))});
  setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  cluster.start("poseidon-worker", "b", fewer);
  unsetenv("ONEDNN_MAX_CPU_ISA");
  cluster.start("poseidon-server", "server", {"--once"});
  std::vector<std::string> words{"--set", "data.batch_per_worker=1"};
  words.insert(words.end(), more.begin(), more.end());
  return cluster.train("run", words).wait();
}

/// The lowest instruction set of this build whose multiply-adds round as those of this process.
Isa lowest_alike() { return isa() == Isa::kX86V4 ? Isa::kX86V3 : isa(); }

/// Whether this build has an instruction set without fused multiply-add, and this process has it.
bool can_lack_fused() { return built_isas()[0] == Isa::kX86V2 && has_fused_multiply_add(); }

/// The arithmetic of a worker in plan.json.
std::string arithmetic_of(const Json& plan, size_t worker) {
  return plan["devices"][worker]["arithmetic"].get<std::string>();
}

constexpr const char* kUnfused = "worker 1 has no fused multiply-add (oneDNN ";

}  // namespace

TEST_CASE("workers with different instruction sets use factors and keep equal replicas") {
  Cluster cluster;
  const Finished finished = train_unlike(
      cluster, lowest_alike(), {"--set", "train.checkpoint_every=1", "--set", "train.steps=20"});
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  const Json plan = Json::parse(trainer::read_text(cluster.job.folder / "run" / "plan.json"));
  CHECK_FALSE(plan.contains("reason"));
  CHECK(plan.dump().find(R"("scheme":"sfb")") != std::string::npos);
  REQUIRE(plan["devices"].size() == 2);
  // Without AVX-512 a worker sets oneDNN's instructions itself, so such workers cannot differ.
  CHECK((arithmetic_of(plan, 0) != arithmetic_of(plan, 1)) == (lowest_alike() != isa()));
}

TEST_CASE("a job with factors uses servers if only some workers have fused multiply-add") {
  if (!can_lack_fused()) return;
  Cluster cluster;
  const Finished finished = train_unlike(
      cluster, Isa::kX86V2, {"--set", "train.checkpoint_every=1", "--set", "train.steps=20"});
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(has(finished.err, std::string("no layer uses sufficient factors: ") + kUnfused));
  const fs::path file = cluster.job.folder / "run" / "plan.json";
  const Json plan = Json::parse(trainer::read_text(file));
  CHECK(has(plan["reason"].get<std::string>(), kUnfused));
  for (const Json& layer : plan["layers"]) CHECK(layer["scheme"] == "ps");
  REQUIRE(plan["devices"].size() == 2);
  CHECK(plan["devices"][0]["fused_multiply_add"] == true);
  CHECK(plan["devices"][1]["fused_multiply_add"] == false);
  // The plan file contains the devices too. They must not matter when another run uses that plan.
  Cluster alike;
  for (const char* rank : {"0", "1"})
    alike.start("poseidon-worker", rank, {"--once", "--rank", rank});
  alike.start("poseidon-server", "server", {"--once"});
  const Finished again = alike.train("run", {"--set", "comm.plan=" + file.string()}).wait();
  CAPTURE(again.err);
  CHECK(again.code == 0);
}

TEST_CASE("workers with native and with emulated bf16 train together with equal replicas") {
  Cluster cluster;
  const Finished finished = train_unlike(cluster, lowest_alike(),
                                         {"--set", "train.checkpoint_every=1", "--set",
                                          "train.steps=5", "--set", "device.precision=bf16"});
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  const Json plan = Json::parse(trainer::read_text(cluster.job.folder / "run" / "plan.json"));
  CHECK(has(arithmetic_of(plan, 0), cpu::has_bf16_products() ? ", bf16 by inst" : ", bf16 emu"));
  CHECK(has(arithmetic_of(plan, 1), ", bf16 emulated"));
}

TEST_CASE("a required sfb is refused if only some workers have fused multiply-add") {
  if (!can_lack_fused()) return;
  Cluster alike;
  for (const char* rank : {"0", "1"})
    alike.start("poseidon-worker", rank, {"--once", "--rank", rank});
  alike.start("poseidon-server", "server", {"--once"});
  REQUIRE(alike.train("run", {"--set", "data.batch_per_worker=1"}).wait().code == 0);
  const fs::path plan = alike.job.folder / "run" / "plan.json";
  REQUIRE(has(trainer::read_text(plan), "\"sfb\""));
  for (const std::string& set : {std::string("comm.scheme=sfb"), "comm.plan=" + plan.string()}) {
    CAPTURE(set);
    Cluster cluster;
    const Finished finished = train_unlike(cluster, Isa::kX86V2, {"--set", set});
    CAPTURE(finished.err);
    CHECK(finished.code == 2);
    CHECK(has(finished.err, "factors need workers that all have fused multiply-add: "));
    CHECK(has(finished.err, kUnfused));
  }
}

TEST_CASE("workers with different numbers of threads use factors, and compute the same bits") {
  const auto weights_with = [](const std::string& threads) {
    Cluster cluster;
    cluster.start("poseidon-worker", "a", {"--once", "--rank", "0"});
    cluster.start("poseidon-worker", "b", {"--once", "--rank", "1", "--threads", threads});
    cluster.start("poseidon-server", "server", {"--once"});
    const Finished finished = cluster.train("run", {"--set", "data.batch_per_worker=1"}).wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    CHECK(!has(finished.err, "no layer uses sufficient factors"));
    const fs::path run = cluster.job.folder / "run";
    CHECK(has(trainer::read_text(run / "plan.json"), "\"sfb\""));
    return Json::parse(trainer::read_text(run / "summary.json"))["weights_sha256"]
        .get<std::string>();
  };
  CHECK(weights_with("3") == weights_with("1"));
}

TEST_CASE("a node of another build is refused, and the job waits for other nodes") {
  Cluster cluster;
  Program train = cluster.train("run");
  trainer::MemberOptions options{.coordinator = cluster.address, .secret = {}};
  options.secret.assign(32, std::byte{'s'});
  const std::string answer = Applicant(options, {{"build", "of another day"}}).answer();
  CHECK(answer == "build is of another day, expected " + trainer::build_identity());
  CHECK(says(train, "is not admitted: build is of another day, expected poseidon "));
  cluster.start("poseidon-worker", "a");
  cluster.start("poseidon-worker", "b");
  cluster.start("poseidon-server", "server");
  CHECK(train.wait().code == 0);
}

TEST_CASE("a daemon above the job's number of workers is refused and exits with 2") {
  Cluster cluster;
  Program train = cluster.train("run", {"--set", "train.steps=100000"});
  cluster.start("poseidon-worker", "a");
  cluster.start("poseidon-worker", "b");
  cluster.start("poseidon-server", "server");
  REQUIRE(says(train, "begin with step"));
  Program& late = cluster.start("poseidon-worker", "late", {"--once"});
  const Finished finished = late.wait();
  CHECK(finished.code == 2);
  CHECK(has(finished.err, "not admitted: a job is already running"));
  train.send(SIGTERM);
  CHECK(train.wait().code == 0);
}

TEST_CASE("a daemon that finds no coordinator exits with 2 and names the address") {
  Cluster cluster;
  Program& worker = cluster.start("poseidon-worker", "a", {"--once", "--join-timeout", "1"});
  const Finished finished = worker.wait();
  CHECK(finished.code == 2);
  CHECK(has(finished.err, "the coordinator at " + cluster.address + " cannot be reached"));
}

TEST_CASE("--once: daemons that survive a node failure exit with 3") {
  Cluster cluster;
  Program& failed = cluster.start("poseidon-worker", "a", {"--once", "--rank", "0"});
  Program& other = cluster.start("poseidon-worker", "b", {"--once", "--rank", "1"});
  Program& server = cluster.start("poseidon-server", "server", {"--once"});
  Program train = cluster.train("run", {"--set", "train.steps=100000"});
  REQUIRE(says(train, "begin with step"));
  failed.send(SIGKILL);
  CHECK(train.wait().code == 3);
  CHECK(other.wait().code == 3);
  CHECK(server.wait().code == 3);
}

TEST_CASE("SIGTERM while poseidon-train waits for daemons exits with 1 and frees the port") {
  Cluster cluster;
  Program train = cluster.train("run");
  REQUIRE(says(train, "waiting for 2 workers"));
  Program& worker = cluster.start("poseidon-worker", "a", {"--once"});
  REQUIRE(says(train, "worker 0 joined"));
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "stopped before the first step; there is no checkpoint yet"));
  CHECK(worker.wait().code == 1);
  CHECK_FALSE(is_listening(cluster.address));
}
