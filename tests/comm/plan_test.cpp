#include "comm/plan/plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "comm/plan/chunks.h"
#include "comm/plan/cost_model.h"
#include "comm/plan/scheme_choice.h"
#include "comm/plan/scheme_costs.h"
#include "comm/plan/traffic.h"
#include "core/error.h"
#include "tests/comm/small_plan.h"
#include "tests/comm/vgg19.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

const LayerPlan& layer_of(const Plan& plan, const std::string& name) {
  return *std::find_if(plan.layers.begin(), plan.layers.end(),
                       [&](const LayerPlan& layer) { return layer.traffic.name == name; });
}

/// Reference: bytes that a layer moves over all nodes, counted message by message.
int64_t counted_bytes(const Plan& plan, const std::string& name, const std::vector<int64_t>& parts,
                      const std::vector<int64_t>& samples, int64_t element_bytes) {
  int64_t total = 0;
  for (const Chunk& chunk : plan.chunks)
    for (const Piece& piece : chunk.pieces) {
      if (plan.layers[piece.layer].traffic.name != name) continue;
      const TensorTraffic& tensor = plan.layers[piece.layer].traffic.tensors[piece.tensor];
      const int64_t host = plan.assignment.servers_apart() ? plan.workers() + chunk.server
                                                           : chunk.server % plan.workers();
      for (int64_t worker = 0; worker < plan.workers(); ++worker)
        if (worker != host)  // one frame for each part, and one for the sum
          total += 2 * (parts[static_cast<size_t>(worker)] + 1) * piece.count *
                   (tensor.exact ? 4 : element_bytes);
    }
  const LayerPlan& layer = layer_of(plan, name);
  if (layer.scheme == Scheme::kSfb)
    for (const int64_t rows : samples)
      total += 2 * rows * (layer.traffic.rows + layer.traffic.columns) * element_bytes *
               (plan.workers() - 1);
  return total;
}

}  // namespace

TEST_CASE("bytes per step of VGG19 and VGG19-22K on nodes that are both worker and server") {
  struct Row {
    int64_t classes, nodes;
    double conv, weights, folded, hybrid, all_ps;
  };
  const std::vector<Row> rows{
      {1000, 2, 160195072, 10872832, 171067904, 171141440, 1149337920},
      {1000, 4, 240292608, 32618496, 272911104, 273021408, 1724006880},
      {1000, 8, 280341376, 76109824, 356451200, 356579888, 2011341360},
      {1000, 16, 300365760, 163092480, 463458240, 463596120, 2155008600},
      {1000, 32, 310377952, 337057792, 647435744, 647578220, 2226842220},
      {21841, 2, 160195072, 16208128, 176403200, 176643464, 1832422536},
      {21841, 4, 240292608, 48624384, 288916992, 289277388, 2748633804},
      {21841, 8, 280341376, 113456896, 393798272, 394218734, 3206739438},
      {21841, 16, 300365760, 243121920, 543487680, 543938175, 3435792255},
      {21841, 32, 310377952, 502451968, 812829920, 813295431.5, 3550318663.5}};
  const std::vector<double> bias_of_1000{73536, 110304, 128688, 137880, 142476};
  const std::vector<double> bias_of_22k{240264, 360396, 420462, 450495, 465511.5};
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    CAPTURE(row.classes);
    CAPTURE(row.nodes);
    PlanRequest request = on_nodes(vgg19(row.classes), row.nodes);
    const Plan plan = make_plan(request);
    CHECK(schemes_of(plan) == "PPPPPPPPPPPPPPPPSSS");
    double conv = 0, factors = 0, sfb_side = 0, conv_ps_side = 0;
    for (const LayerPlan& layer : plan.layers) {
      (layer.scheme == Scheme::kSfb ? factors : conv) += layer.bytes;
      if (layer.traffic.linear)
        sfb_side += layer.formula_bytes[Scheme::kSfb];
      else
        conv_ps_side += layer.formula_bytes[Scheme::kPs];
    }
    CHECK(conv == row.conv);
    CHECK(conv_ps_side == row.conv);
    CHECK(factors == row.weights);
    CHECK(sfb_side == row.weights);
    CHECK(plan.bytes_per_node == row.folded);
    request.scheme = SchemeRule::kPs;
    const Plan all_ps = make_plan(request);
    CHECK(schemes_of(all_ps) == "PPPPPPPPPPPPPPPPPPP");
    CHECK(all_ps.bytes_per_node == row.all_ps);
    // The papers also count biases of linear layers, which use the parameter server.
    double bias = 0;
    for (const LayerPlan& layer : all_ps.layers)
      if (layer.traffic.linear) bias += layer.bytes - layer.formula_bytes[Scheme::kPs];
    CHECK(plan.bytes_per_node + bias == row.hybrid);
    CHECK(bias == (i < 5 ? bias_of_1000[i] : bias_of_22k[i - 5]));
  }
}

TEST_CASE("numbers of 2 MiB chunks of VGG19, by layer") {
  for (const int64_t classes : {1000, 21841}) {
    PlanRequest request = on_nodes(vgg19(classes), 8);
    request.scheme = SchemeRule::kPs;
    const Plan plan = make_plan(request);
    std::vector<int64_t> weight_chunks(plan.layers.size());
    for (const Chunk& chunk : plan.chunks)
      if (chunk.pieces[0].tensor == 0) ++weight_chunks[chunk.key];
    CHECK(weight_chunks[16] == 196);
    CHECK(weight_chunks[17] == 32);
    CHECK(weight_chunks[18] == (classes == 1000 ? 8 : 171));
    // A large tensor has one chunk per server, and a small one has one chunk. The first layer's
    // weight and bias are small and share a chunk.
    CHECK(plan.chunks.size() == (classes == 1000 ? 359 : 522) - 1);
    CHECK(plan.hottest_shard_over_mean < 1.018);
  }
}

TEST_CASE("Algorithm 1 decides by the weight alone and chooses factors in a tie") {
  const auto decisions = [](int64_t outputs, int64_t inputs, int64_t batch) {
    std::string all;
    for (const int64_t nodes : {2, 4, 8, 16, 32})
      all += schemes_of(make_plan(on_nodes({linear_traffic("fc", outputs, inputs)}, nodes, batch)));
    return all;
  };
  CHECK(decisions(4096, 9216, 256) == "SSSSP");
  CHECK(decisions(4096, 4096, 256) == "SSSSP");  // a tie on 16 nodes
  CHECK(decisions(1000, 4096, 256) == "SSPPP");
  CHECK(decisions(1000, 1024, 128) == "SSPPP");
  CHECK(decisions(1000, 1024, 32) == "SSSSP");
  CHECK(decisions(1024, 2048, 32) == "SSSSS");
  CHECK(decisions(1000, 2048, 32) == "SSSSS");
  CHECK(decisions(500, 800, 64) == "SSSPP");
  CHECK(decisions(64, 1024, 50) == "SPPPP");
  CHECK(decisions(64, 1024, 100) == "PPPPP");
}

TEST_CASE("a batch that is not divisible by the workers counts as a fraction per worker") {
  PlanRequest request = on_nodes({linear_traffic("fc", 100, 100)}, 3);
  request.global_batch = 100;
  const Plan plan = make_plan(request);
  CHECK(to_json(plan)["batch_per_worker"].get<double>() == doctest::Approx(100 / 3.0));
  CHECK(plan.layers[0].formula_bytes[Scheme::kSfb] ==
        doctest::Approx(4 * 2 * (100 / 3.0) * 2 * 200));
}

TEST_CASE("schemes in the job and the network file override the rule") {
  PlanRequest request = on_nodes(small_network(), 4);
  CHECK(schemes_of(make_plan(request)) == "PPSP");
  request.scheme = SchemeRule::kSfb;
  CHECK(schemes_of(make_plan(request)) == "PPSS");
  request.policy = Policy::kTime;  // no layer has a choice, so no times are needed
  CHECK(schemes_of(make_plan(request)) == "PPSS");
  request.policy = Policy::kBytes;
  request.scheme = SchemeRule::kPs;
  request.layers[3].forced = SchemeRule::kSfb;
  CHECK(schemes_of(make_plan(request)) == "PPPS");
  request.scheme = SchemeRule::kSfb;
  request.layers[2].forced = SchemeRule::kPs;
  CHECK(schemes_of(make_plan(request)) == "PPPS");
  request.layers[3].factors.reset();
  CHECK(error_of<ConfigError>([&] { make_plan(request); }) ==
        "[linear 'fc2'] expected a scheme other than \"sfb\": its gradient is not a product of "
        "factors that can be sent");
  request.layers[3].is_shared = true;
  CHECK(error_of<ConfigError>([&] { make_plan(request); }) ==
        "[linear 'fc2'] expected a scheme other than \"sfb\": several layers use its parameters "
        "(\"shares\"), and the sum of their gradients is not a product of factors");
  request.layers[3].is_shared = false;
  request.layers[3].forced = SchemeRule::kAuto;
  CHECK(schemes_of(make_plan(request)) == "PPPP");
  request.layers[0].forced = SchemeRule::kSfb;
  CHECK(error_of<ConfigError>([&] { make_plan(request); }).starts_with("[convolution 'conv'] "));
}

TEST_CASE("a single worker sends nothing, with the local scheme or with factors") {
  PlanRequest request = on_nodes(small_network(), 1);
  Plan plan = make_plan(request);
  CHECK(schemes_of(plan) == "LLLL");
  CHECK(plan.chunks.empty());
  CHECK(plan.bytes_per_node == 0);
  CHECK(plan.hottest_shard_over_mean == 1);
  request.scheme = SchemeRule::kSfb;
  plan = make_plan(request);
  CHECK(schemes_of(plan) == "LLSS");
  CHECK(plan.bytes_per_node == 0);
  request.scheme = SchemeRule::kAuto;
  request.layers[3].forced = SchemeRule::kSfb;
  CHECK(schemes_of(make_plan(request)) == "LLLS");
}

TEST_CASE("planned bytes equal the bytes of all messages between nodes") {
  struct Case {
    int64_t workers, servers, shards, batch;
    bool apart;
    WireFormat wire;
    std::vector<int64_t> parts, samples;  ///< by worker
  };
  const std::vector<Case> cases{
      {4, 4, 4, 8, false, WireFormat::kFp32, {1, 1, 1, 1}, {2, 2, 2, 2}},
      {4, 2, 4, 10, false, WireFormat::kFp32, {1, 1, 1, 1}, {3, 3, 2, 2}},
      {2, 5, 2, 8, false, WireFormat::kFp32, {1, 1}, {4, 4}},
      {3, 2, 3, 8, true, WireFormat::kBf16, {1, 1, 1}, {3, 3, 2}},
      // 12 shards: the top nodes of the tree have 8 and 4. Workers hold 4 each, or 3: 2 + 1, 1 + 2,
      // ...
      {3, 2, 12, 26, false, WireFormat::kFp32, {1, 1, 1}, {10, 8, 8}},
      {4, 3, 12, 24, false, WireFormat::kBf16, {2, 2, 2, 2}, {6, 6, 6, 6}},
      // 5 shards, nodes 4 and 1: worker 0 holds 0 to 2, worker 1 holds 3 and 4.
      {2, 1, 5, 10, false, WireFormat::kFp32, {2, 2}, {6, 4}}};
  for (const Case& one : cases) {
    CAPTURE(one.workers);
    CAPTURE(one.servers);
    CAPTURE(one.shards);
    PlanRequest request = on_nodes(small_network(), one.workers);
    request.servers = one.servers;
    request.logical_shards = one.shards;
    request.global_batch = one.batch;
    request.servers_apart = one.apart;
    request.wire = one.wire;
    const Plan plan = make_plan(request);
    const std::vector<LayerTrafficBytes> traffic = expected_traffic(plan);
    const int64_t nodes = plan.assignment.hosts();
    CHECK(nodes == one.workers + (one.apart ? one.servers : 0));
    double sum = 0;
    for (size_t i = 0; i < plan.layers.size(); ++i) {
      const LayerPlan& layer = plan.layers[i];
      CAPTURE(layer.traffic.name);
      const int64_t expected = counted_bytes(plan, layer.traffic.name, one.parts, one.samples,
                                             static_cast<int64_t>(codec_of(request.wire).bytes(1)));
      CHECK(total_bytes(traffic[i]) == expected);
      CHECK(layer.bytes ==
            doctest::Approx(static_cast<double>(expected) / static_cast<double>(nodes))
                .epsilon(1e-12));
      sum += layer.bytes;
      int64_t sent = 0, received = 0;
      for (const NodeBytes& node : traffic[i]) {
        sent += node.sent;
        received += node.received;
      }
      CHECK(sent == received);
      CHECK(traffic[i].size() == static_cast<size_t>(nodes));
    }
    CHECK(plan.bytes_per_node == doctest::Approx(sum).epsilon(1e-12));
  }
}

TEST_CASE("sent and received bytes of each node equal values computed by hand") {
  // One tensor of 16 elements on server 0, on the host of worker 0. There are 5 shards.
  PlanRequest request = on_nodes({convolution_traffic("conv", 4, 3)}, 2);
  request.servers = 1;
  request.logical_shards = 5;
  const std::vector<LayerTrafficBytes> traffic = expected_traffic(make_plan(request));
  // Worker 1 sends shard 3 and shard 4. Node 0 sends the sum to it.
  CHECK(traffic[0] == LayerTrafficBytes{{64, 128}, {128, 64}});
  // Factors: worker 0 has 6 samples, worker 1 has 4.
  request.layers = {linear_traffic("fc", 3, 5)};
  request.scheme = SchemeRule::kSfb;
  request.global_batch = 10;
  CHECK(expected_traffic(make_plan(request))[0] ==
        LayerTrafficBytes{{6 * 8 * 4, 4 * 8 * 4}, {4 * 8 * 4, 6 * 8 * 4}});
}

TEST_CASE("with wire format bf16, fp32 tensors share no chunk with rounded tensors") {
  PlanRequest request = on_nodes(small_network(), 3);
  const auto mixed = [](const Plan& plan) {
    return std::ranges::any_of(plan.chunks, [&](const Chunk& chunk) {
      return std::ranges::any_of(chunk.pieces, [&](const Piece& piece) {
        return plan.layers[piece.layer].traffic.tensors[piece.tensor].exact !=
               plan.layers[chunk.pieces[0].layer].traffic.tensors[chunk.pieces[0].tensor].exact;
      });
    });
  };
  request.scheme = SchemeRule::kPs;
  const Plan fp32 = make_plan(request);
  CHECK(mixed(fp32));
  request.wire = WireFormat::kBf16;
  const Plan bf16 = make_plan(request);
  CHECK_FALSE(mixed(bf16));
  for (const Chunk& chunk : bf16.chunks) {
    const Piece& first = chunk.pieces[0];
    const bool exact = bf16.layers[first.layer].traffic.tensors[first.tensor].exact;
    CHECK(wire_format_of(bf16, chunk) == (exact ? WireFormat::kFp32 : WireFormat::kBf16));
  }
  CHECK(layer_of(bf16, "bn").bytes == layer_of(fp32, "bn").bytes);
  CHECK(layer_of(bf16, "conv").bytes < layer_of(fp32, "conv").bytes);
  // A job that continues with another wire format keeps its chunks if they are valid for it.
  CHECK_FALSE(mixed(follow_plan(request, fp32)));
  CHECK(follow_plan(request, bf16).chunks == bf16.chunks);
  request.wire = WireFormat::kFp32;
  CHECK(follow_plan(request, bf16).chunks == bf16.chunks);

  Json json = to_json(fp32);
  json["wire"] = "bf16";
  const std::string error = error_of<ConfigError>([&] {
    read_plan(json, {"plan.json", ""}, request.layers);
  });
  CHECK(error.starts_with("plan.json: /chunks/"));
  CHECK(error.ends_with(
      "/pieces/1: expected a tensor with the wire format of the first one in its chunk, got tensor "
      "0 of layer 3: \"wire\": \"bf16\" rounds only one of the two"));
}

TEST_CASE("EvenTraffic equals the average traffic of a plan") {
  PlanRequest request = on_nodes(vgg19(1000), 6);
  const auto mean_bytes = [&](Scheme scheme, const LayerTraffic& layer) {
    const EvenTraffic even(request);
    const LinkBytes bytes = costs_of(scheme).link_bytes(layer, even, even.mean());
    return bytes.sent + bytes.received;
  };
  request.scheme = SchemeRule::kPs;
  for (const bool apart : {false, true}) {
    request.servers_apart = apart;
    const LayerTraffic all{
        .name = "all", .type = "convolution", .tensors = {{.name = "all", .elements = 143667240}}};
    CHECK(mean_bytes(Scheme::kPs, all) == doctest::Approx(make_plan(request).bytes_per_node));
  }
  request.scheme = SchemeRule::kSfb;
  const LayerPlan fc6 = layer_of(make_plan(request), "fc6");
  CHECK(mean_bytes(Scheme::kSfb, fc6.traffic) == doctest::Approx(fc6.bytes));
}

TEST_CASE("make_plan() handles a thousand workers and servers") {
  const Plan plan = make_plan(on_nodes(vgg19(1000), 1000));
  CHECK(plan.bytes_per_node > 0);
  CHECK(schemes_of(plan) == "PPPPPPPPPPPPPPPPPPP");
}

TEST_CASE("a plan is written and read back unchanged") {
  for (const int64_t workers : {1, 4}) {
    PlanRequest request = on_nodes(vgg19(1000), workers);
    request.servers = 3;
    request.logical_shards = 12;
    request.servers_apart = true;
    request.wire = WireFormat::kBf16;
    request.overlap = Overlap::kBarrier;
    request.staleness = workers;
    request.link_mbps = 940;
    const Plan plan = make_plan(request);
    const Json json = to_json(plan);
    CHECK(json["staleness"] == workers);
    const Plan read = read_plan(Json::parse(json.dump()), {"plan.json", ""}, request.layers);
    CHECK(to_json(read) == json);
    CHECK(read.chunks == plan.chunks);
  }
}

TEST_CASE("plan.json has the expected keys") {
  const Json json = to_json(make_plan(on_nodes(small_network(), 2)));
  for (const char* key : {"workers", "servers", "batch_per_worker", "policy", "layers",
                          "bytes_per_node", "hottest_shard_over_mean"})
    CHECK(json.contains(key));
  const Json& conv = json["layers"][0];
  for (const char* key :
       {"name", "type", "rows", "columns", "ps_bytes", "sfb_bytes", "bytes", "scheme"})
    CHECK(conv.contains(key));
  CHECK(conv["scheme"] == "ps");
  CHECK(conv["sfb_bytes"].is_null());
  CHECK(json["layers"][1]["ps_bytes"] == 2 * 4 * 128);  // without statistics
  CHECK(json["layers"][1]["bytes"] == 2 * 4 * 256);     // with statistics
  CHECK(json["layers"][2]["scheme"] == "sfb");
}

TEST_CASE("an inconsistent plan, or one of another network, is rejected with its JSON path") {
  PlanRequest request = on_nodes(small_network(), 2);
  const Json good = to_json(make_plan(request));
  const auto refused = [&](const char* pointer, const char* value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return error_of<ConfigError>([&] { read_plan(json, {"p", ""}, request.layers); });
  };
  REQUIRE(refused("/workers", "2") == "");
  CHECK(refused("/workers", "0").starts_with("p: /workers: expected "));
  CHECK(refused("/workers", "70000").starts_with("p: /workers: expected "));
  CHECK(refused("/workers", "4") == "p: /logical_shards: expected at least \"workers\" (4), got 2");
  CHECK(refused("/chunks/1/server", "2") ==
        "p: /chunks/1/server: expected a server below 2, got 2");
  CHECK(refused("/wire", "\"fp16\"").starts_with("p: /wire: "));
  CHECK(refused("/layers/0/name", "\"other\"") ==
        "p: /layers/0: expected the convolution layer \"conv\" of this network, got the "
        "convolution layer \"other\"");
  CHECK(refused("/layers/0/tensors/0/elements", "7") ==
        "p: /layers/0/tensors: expected the tensors of layer \"conv\" of this network, got others");
  CHECK(refused("/layers/0/scheme", "\"sfb\"")
            .starts_with("p: /layers/0/scheme: expected a scheme other than \"sfb\" for the "));
  CHECK(refused("/layers/0/scheme", "\"local\"") ==
        "p: /layers/0/scheme: expected a scheme other than \"local\" for 2 workers");
  CHECK(refused("/layers", "[]").starts_with("p: /layers: expected the 4 layers "));
  CHECK(refused("/chunks", "[]") ==
        "p: /chunks: the elements from index 0 of tensor 0 of layer 0 are missing");
  CHECK(refused("/chunks/0/pieces", "[]") == "p: /chunks/0/pieces: expected at least one piece");
  CHECK(refused("/chunks/0/key", "1").starts_with("p: /chunks/0/key: expected the layer of "));
  CHECK(refused("/chunks/0/pieces/0/layer", "9000000000")
            .starts_with("p: /chunks/0/pieces/0/layer: "));
  CHECK(refused("/chunks/0/pieces/0/first", "16") ==
        "p: /chunks/0/pieces/0: expected element 0 of tensor 0 of layer 0, got element 16 of "
        "tensor 0 of layer 0");
  CHECK(refused("/chunks/0/pieces/0/count", "1000000") ==
        "p: /chunks/0/pieces/0/count: expected at most 36864, got 1000000");
  CHECK(refused("/chunks/0/pieces/0/count", "24").find("expected element 24") != std::string::npos);
  CHECK(refused("/chunk", "1").find("did you mean \"chunks\"?") != std::string::npos);
  Json doubled = good;
  doubled["chunks"].push_back(good["chunks"].back());
  CHECK(error_of<ConfigError>([&] {
          read_plan(doubled, {"p", ""}, request.layers);
        })
            .ends_with(
                "expected no further piece: earlier pieces contain all elements that servers sum"));
  CHECK(error_of<ConfigError>([&] { read_plan(Json::array(), {"p", ""}, request.layers); }) != "");
}

TEST_CASE("follow_plan() keeps the measurements of the earlier plan") {
  const PlanRequest request = on_nodes(small_network(), 4);
  Plan earlier = make_plan(request);
  earlier.link_mbps = 940;
  earlier.processor_ns_per_byte = 0.5;
  const Plan plan = follow_plan(request, earlier);
  CHECK(plan.link_mbps == 940);
  CHECK(plan.processor_ns_per_byte == 0.5);
}

TEST_CASE("follow_plan() keeps schemes for other numbers of workers and servers") {
  const PlanRequest of_4 = on_nodes(small_network(), 4);
  const Plan earlier = make_plan(of_4);
  REQUIRE(schemes_of(earlier) == "PPSP");
  PlanRequest request = on_nodes(small_network(), 1, 128);
  request.logical_shards = 4;
  CHECK(schemes_of(follow_plan(request, earlier)) == "LLSL");
  request.workers = 3;
  request.servers = 2;
  const Plan of_3 = follow_plan(request, earlier);
  CHECK(schemes_of(of_3) == "PPSP");
  CHECK(std::all_of(of_3.chunks.begin(), of_3.chunks.end(),
                    [](const Chunk& chunk) { return chunk.server < 2; }));
  CHECK(schemes_of(follow_plan(of_4, follow_plan(request, earlier))) == "PPSP");
  // With the same number of servers, the chunks are kept, even if the chunk size has changed.
  request.servers = 4;
  request.chunk_bytes = 65536;
  CHECK(follow_plan(request, earlier).chunks == earlier.chunks);
  CHECK(follow_plan(request, earlier).bytes_per_node > 0);
  request.layers[2].factors.reset();
  CHECK(
      error_of<ConfigError>([&] { follow_plan(request, earlier); }).starts_with("[linear 'fc1'] "));
  request.layers.pop_back();
  CHECK(error_of<ConfigError>([&] { follow_plan(request, earlier); }) ==
        "expected an earlier plan with the layers and tensors of this network");
}
