// Plans from jobs and networks: the shipped ones, and plans from a network file and layer times.

#include "trainer/plan/sync_plan.h"

#include <doctest/doctest.h>

#include <map>

#include "comm/plan/shard_parts.h"
#include "core/cpu/cpu_device.h"
#include "layers/cpu/update.h"
#include "tests/support/folders.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/plan/wire_advice.h"
#include "trainer/step/shard_tree.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

const fs::path kConfigs = fs::path(test::source_folder()) / "configs";

Job job_for_plan(const fs::path& file, std::vector<std::string> overrides) {
  SilentLog log;
  return load_job({.file = file,
                   .overrides = std::move(overrides),
                   .data_may_be_missing = true,
                   .use = JobUse::kPlan},
                  log);
}

Job tiny_for_plan(const TinyJob& tiny, std::vector<std::string> overrides = {}) {
  return job_for_plan(tiny.folder / "job.json", std::move(overrides));
}

Json shipped_plan(const std::string& job, int64_t workers) {
  return plan_job(
      job_for_plan(kConfigs / (job + ".json"), {"cluster.workers=" + std::to_string(workers)}), "");
}

/// Scheme by layer.
std::map<std::string, std::string> schemes_of(const Json& plan) {
  std::map<std::string, std::string> schemes;
  for (const Json& layer : plan["layers"])
    schemes[layer["name"].get<std::string>()] = layer["scheme"].get<std::string>();
  return schemes;
}

Json timing(const std::vector<std::string>& names, double batch) {
  Json layers = Json::array();
  for (const std::string& name : names)
    layers.push_back({{"name", name},
                      {"type", name == "ip" ? "linear" : "convolution"},
                      {"forward_ms", 1},
                      {"backward_ms", 2},
                      {"share", 0.5},
                      {"backward_gflops", name == "ip" ? 3 : 5}});
  return {{"name", "tiny"}, {"batch", batch}, {"layers", layers}, {"update_ms", 0}};
}

}  // namespace

TEST_CASE("plans of the shipped VGG-19 networks have the bytes of the reference") {
  const std::map<int64_t, std::pair<double, double>> bytes{{2, {171067904, 176403200}},
                                                           {4, {272911104, 288916992}},
                                                           {8, {356451200, 393798272}},
                                                           {16, {463458240, 543487680}},
                                                           {32, {647435744, 812829920}}};
  for (const auto& [count, expected] : bytes) {
    const int64_t nodes = count;
    CAPTURE(nodes);
    const Json plan = shipped_plan("vgg19-random", nodes);
    CHECK(plan["bytes_per_node"] == expected.first);
    CHECK(plan["servers"] == nodes);
    CHECK(plan["batch_per_worker"] == 32.0);
    CHECK(shipped_plan("vgg19-22k-random", nodes)["bytes_per_node"] == expected.second);
  }
}

TEST_CASE("the parameter counts of the shipped networks are right") {
  const auto parameters = [](const char* network) {
    return net::Network(kConfigs / "networks" / network, 1).parameter_count();
  };
  CHECK(parameters("vgg19.json") == 143667240);
  CHECK(parameters("vgg19-22k.json") == 229052817);
  CHECK(parameters("lenet.json") == 431080);
  CHECK(parameters("cifar10_quick.json") == 145578);
  CHECK(parameters("alexnet.json") == 60965224);
}

TEST_CASE("shipped networks of 16 MiB and more are balanced over up to 32 server shards") {
  for (const auto& entry : fs::directory_iterator(kConfigs / "networks")) {
    const std::vector<comm::LayerTraffic> layers = layer_traffic(net::Network(entry.path(), 1));
    for (const comm::SchemeRule scheme : {comm::SchemeRule::kPs, comm::SchemeRule::kSfb})
      for (int64_t servers = 1; servers <= 32; ++servers) {
        comm::PlanRequest request;
        request.layers = layers;
        request.scheme = scheme;
        request.workers = 2;
        request.servers = servers;
        const comm::Plan plan = comm::make_plan(request);
        int64_t elements = 0;
        for (const comm::Chunk& chunk : plan.chunks) elements += chunk.elements();
        if (elements * 4 < 16 << 20) continue;
        CAPTURE(entry.path().string());
        CAPTURE(scheme);
        CAPTURE(servers);
        CHECK(plan.hottest_shard_over_mean <= 1.1);
      }
  }
}

TEST_CASE("the layers and tensors of a network that are summed") {
  const TinyJob tiny;
  const Job job = tiny_for_plan(tiny);
  const std::vector<comm::LayerTraffic> layers = layer_traffic(*job.network);
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].name == "conv");
  CHECK_FALSE(layers[0].linear);
  CHECK(layers[0].tensors == std::vector<comm::TensorTraffic>{{"conv.weight", 90}});
  CHECK(layers[1].tensors.size() == 4);
  CHECK(layers[1].tensors[2].statistic);
  CHECK(layers[2].linear);
  CHECK(layers[2].factors->activations == 80);
  CHECK(layers[2].rows == 3);
  CHECK(layers[2].columns == 80);
  CHECK(layers[2].tensors == std::vector<comm::TensorTraffic>{{"ip.weight", 240}, {"ip.bias", 3}});
}

TEST_CASE("frozen parameters are not sent, and a layer with a frozen weight uses no factors") {
  Json network = Json::parse(kTinyNetwork);
  network["layers"][0]["learning_rate_multipliers"] = {0};
  network["layers"][4]["learning_rate_multipliers"] = {0, 1};
  const std::vector<comm::LayerTraffic> layers = layer_traffic(net::Network(network, "n.json", 8));
  REQUIRE(layers.size() == 2);
  CHECK(layers[1].tensors == std::vector<comm::TensorTraffic>{{"ip.bias", 3}});
  CHECK_FALSE(layers[1].linear);
  CHECK_FALSE(layers[1].factors.has_value());
}

TEST_CASE("a layer with shared parameters uses no factors, and the message states the reason") {
  const Json network = Json::parse(R"({"name": "n", "layers": [
      {"name": "a", "type": "linear", "outputs": 8, "scheme": "sfb"},
      {"name": "b", "type": "linear", "outputs": 8, "shares": "a"},
      {"name": "loss", "type": "softmax_loss"}],
      "input": {"channels": 8, "height": 1, "width": 1}})");
  comm::PlanRequest request;
  request.layers = layer_traffic(net::Network(network, "n.json", 8));
  REQUIRE(request.layers.size() == 1);
  CHECK(request.layers[0].is_shared);
  request.workers = 2;
  request.global_batch = 8;
  CHECK(error_of<ConfigError>([&] { comm::make_plan(request); }) ==
        "[linear 'a'] expected a scheme other than \"sfb\": several layers use its parameters "
        "(\"shares\"), and the sum of their gradients is not a product of factors");
}

TEST_CASE(
    "a linear layer's scheme in the network file overrides the job's; other layers have none") {
  Json network = Json::parse(kTinyNetwork);
  network["layers"][4]["scheme"] = "sfb";
  const TinyJob tiny(network.dump().c_str());
  CHECK(schemes_of(plan_job(tiny_for_plan(tiny, {"cluster.workers=2", "comm.scheme=ps"}), "")) ==
        std::map<std::string, std::string>{{"bn", "ps"}, {"conv", "ps"}, {"ip", "sfb"}});
  CHECK(schemes_of(plan_job(tiny_for_plan(tiny), ""))["ip"] == "sfb");
  network["layers"][4]["scheme"] = "fast";
  CHECK(error_of<ConfigError>([&] {
          net::Network(network, "n.json", 8);
        }).starts_with("n.json: /layers/4/scheme: "));
  network["layers"][4].erase("scheme");
  network["layers"][0]["scheme"] = "sfb";
  const TinyJob of_convolution(network.dump().c_str());
  CHECK(schemes_of(plan_job(tiny_for_plan(of_convolution, {"cluster.workers=2"}), ""))["conv"] ==
        "sfb");
  network["layers"][1]["scheme"] = "sfb";
  CHECK(error_of<ConfigError>([&] {
          net::Network(network, "n.json", 8);
        }).starts_with("n.json: /layers/1"));
}

TEST_CASE("--plan accepts any number of workers and servers") {
  const TinyJob tiny;
  const Json plan =
      plan_job(tiny_for_plan(tiny, {"data.global_batch=10", "cluster.workers=1000"}), "");
  CHECK(plan["servers"] == 1000);
  CHECK(plan["logical_shards"] == 1000);
  CHECK(plan["batch_per_worker"] == 0.01);
  CHECK(plan_job(tiny_for_plan(tiny, {"cluster.workers=3", "cluster.servers=7"}), "")["servers"] ==
        7);
  CHECK(error_of<ConfigError>([&] {
          tiny_for_plan(tiny, {"cluster.workers=4", "cluster.logical_shards=3"});
        }).find("cluster.logical_shards=3: expected at least") != std::string::npos);
}

TEST_CASE("overlap is that of the job, and at least \"barrier\" with gradient clipping") {
  const TinyJob tiny;
  const auto overlap = [&](const std::vector<std::string>& overrides) {
    return plan_request(tiny_for_plan(tiny, overrides)).overlap;
  };
  CHECK(overlap({}) == comm::Overlap::kPriority);
  CHECK(overlap({"comm.overlap=barrier"}) == comm::Overlap::kBarrier);
  CHECK(overlap({"comm.overlap=none"}) == comm::Overlap::kNone);
  CHECK(overlap({"optimizer.clip_norm=1"}) == comm::Overlap::kBarrier);
  CHECK(overlap({"optimizer.clip_norm=1", "comm.overlap=none"}) == comm::Overlap::kNone);
}

TEST_CASE("the link is that of the job, limited by comm.bandwidth_limit_mbps") {
  const TinyJob tiny;
  const auto link = [&](const std::vector<std::string>& overrides) {
    return plan_request(tiny_for_plan(tiny, overrides)).link_mbps;
  };
  CHECK(link({}) == 0);
  CHECK(link({"comm.link_mbps=5"}) == 5);
  CHECK(link({"comm.link_mbps=5", "comm.bandwidth_limit_mbps=2"}) == 2);
  CHECK(link({"comm.bandwidth_limit_mbps=2"}) == 2);
}

TEST_CASE("worker and server processes of a node each have half of the bandwidth limit") {
  JobConfig config;
  config.comm.bandwidth_limit_mbps = 100;
  CHECK(bandwidth_share(config, false) == 50);
  CHECK(bandwidth_share(config, true) == 100);
  config.cluster.servers_apart = true;
  CHECK(bandwidth_share(config, false) == 100);
}

TEST_CASE("measured times are added to their layer, or to the layer before") {
  const TinyJob tiny;
  comm::PlanRequest request = plan_request(tiny_for_plan(tiny, {"cluster.workers=2"}));
  // The times were measured for half of a worker's batch.
  add_times(request,
            read_layer_times(timing({"reorder", "conv", "bn", "relu", "drop", "ip", "loss"}, 4),
                             "t.json"),
            "t.json");
  const auto is = [](const comm::LayerTime& time, double forward, double backward) {
    return time.forward_ms == doctest::Approx(forward) &&
           time.backward_ms == doctest::Approx(backward);
  };
  CHECK(is(request.time_before, 2, 4));
  CHECK(is(request.times[0], 2, 4));
  CHECK(is(request.times[1], 6, 12));  // includes relu and drop
  CHECK(is(request.times[2], 4, 8));
  CHECK(request.rebuild_gflops == 3);
  request.link_mbps = 1000;
  request.policy = comm::Policy::kTime;
  CHECK(comm::make_plan(request).predicted_step_ms >= 42);
}

TEST_CASE("times of another network, or no times, are refused with their JSON path") {
  const TinyJob tiny;
  comm::PlanRequest request = plan_request(tiny_for_plan(tiny));
  const auto refused = [&](const Json& json) {
    return error_of<ConfigError>(
        [&] { add_times(request, read_layer_times(json, "t.json"), "t.json"); });
  };
  CHECK(refused(timing({"conv", "ip"}, 4)) ==
        "t.json: /layers: the layer \"bn\" is missing; expected the times of this network");
  CHECK(refused(Json::array()).starts_with("t.json: "));
  CHECK(refused({{"batch", 0}}).starts_with("t.json: /batch: "));
  CHECK(refused({{"batch", 1}, {"layers", 7}}) == "t.json: /layers: expected a list, got 7");
  Json negative = timing({"conv", "bn", "ip"}, 4);
  negative["layers"][1]["forward_ms"] = -1;
  CHECK(refused(negative).starts_with("t.json: /layers/1/forward_ms: "));
}

TEST_CASE("comm.plan: any number of workers follows the schemes of the file") {
  const TinyJob tiny;
  const fs::path file = tiny.folder / "plan.json";
  const Json plan = plan_job(
      tiny_for_plan(tiny, {"cluster.workers=4", "comm.scheme=sfb", "cluster.logical_shards=8"}),
      "");
  write_text(file, plan.dump());
  const auto followed = [&](const std::string& workers) {
    return plan_job(tiny_for_plan(tiny, {"cluster.workers=" + workers, "comm.plan=" + file.string(),
                                         "cluster.logical_shards=8", "data.global_batch=32"}),
                    "");
  };
  CHECK(followed("4")["chunks"] == plan["chunks"]);
  CHECK(schemes_of(followed("2"))["ip"] == "sfb");
  CHECK(schemes_of(followed("1")) ==
        std::map<std::string, std::string>{{"bn", "local"}, {"conv", "local"}, {"ip", "sfb"}});
}

TEST_CASE("sums of workers' parts by a server's tree have the bits of one process") {
  cpu::CpuDevice device(1);
  const auto updater = layers::cpu::make_cpu_updater(device.team());
  for (uint32_t shards = 1; shards <= 24; ++shards) {
    std::vector<float> values;
    for (uint32_t shard = 0; shard < shards; ++shard)
      values.push_back(1.0f / static_cast<float>(1 + shard * shard * 7));
    const auto summed = [&](comm::Part part) {
      ShardTree tree(device, *updater, 1, part.count);
      std::vector<float> value(1);
      for (uint32_t shard = 0; shard < part.count; ++shard) {
        value[0] = values[part.first + shard];
        tree.add(shard, value);
      }
      return value[0];
    };
    for (uint32_t workers = 1; workers <= shards; ++workers) {
      const comm::PartTree tree(comm::even_assignment(workers, 1, false, shards).ranges());
      std::vector<float> sums;
      for (size_t node = 0; node < tree.nodes().size(); ++node) {
        if (node < tree.leaves()) {
          sums.push_back(summed(tree.nodes()[node].part));
          continue;
        }
        float sum = 0;
        for (size_t child = 0; child < node; ++child)
          if (tree.nodes()[child].parent == static_cast<int32_t>(node)) sum += sums[child];
        sums.push_back(sum);
      }
      CHECK(sums.back() == summed({0, shards}));
    }
  }
}

TEST_CASE("the advice on the wire format names the bytes and the time that int8 saves") {
  comm::PlanRequest request;
  request.workers = request.servers = 2;
  request.logical_shards = request.global_batch = 2;
  request.layers = {{.name = "conv",
                     .type = "convolution",
                     .tensors = {{.name = "conv.weight", .elements = 1'000'000}}}};
  CHECK(wire_advice(request, comm::make_plan(request)) ==
        "\"comm.wire\": \"int8\" would move 2.01 MB per node and step instead of 8");
  request.link_mbps = 200;
  CHECK(wire_advice(request, comm::make_plan(request)) ==
        "\"comm.wire\": \"int8\" would move 2.01 MB per node and step instead of 8 (120 ms less on "
        "a link of 200 Mb/s)");
  request.wire = comm::WireFormat::kInt8;
  CHECK(wire_advice(request, comm::make_plan(request)) == "");
  request.wire = comm::WireFormat::kFp32;
  request.workers = request.servers = 1;
  CHECK(wire_advice(request, comm::make_plan(request)) == "");
}
