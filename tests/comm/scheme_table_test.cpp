// Factors of convolutions in plans, and the table of what each scheme would cost.

#include "comm/plan/scheme_table.h"

#include <doctest/doctest.h>

#include "tests/comm/vgg19.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// A late convolution of ResNet-50 (512 channels on 7 x 7, kernel 3 x 3), an early one (64 on 56 x
/// 56), a normalization and a linear layer, on two machines with 8 samples each.
PlanRequest request_with_convolutions() {
  const auto convolution = [](const char* name, int64_t channels, int64_t area) {
    LayerTraffic layer = convolution_traffic(name, channels, 9 * channels);
    layer.factors = {.deltas = channels * area,
                     .activations = channels * area,
                     .multiply_adds = channels * channels * 9 * area};
    return layer;
  };
  const LayerTraffic norm{.name = "norm",
                          .type = "batch_norm",
                          .rows = 64,
                          .columns = 1,
                          .tensors = {{.name = "scale", .elements = 64, .exact = true}}};
  PlanRequest request;
  request.workers = request.servers = 2;
  request.global_batch = 16;
  request.layers = {convolution("early", 64, 3136), norm, convolution("late", 512, 49),
                    linear_traffic("fc", 1000, 2048)};
  return request;
}

PlanRequest by_time(PlanRequest request) {
  request.policy = Policy::kTime;
  request.link_mbps = 200;
  request.rebuild_gflops = 50;
  request.times.assign(request.layers.size(), {.forward_ms = 20, .backward_ms = 40});
  return request;
}

std::string schemes_in(const Plan& plan) {
  std::string schemes;
  for (const LayerPlan& layer : plan.layers) schemes += name_of(layer.scheme) + " ";
  return schemes;
}

Json table_of(const PlanRequest& request) {
  const Plan plan = make_plan(request);
  Json json = to_json(plan);
  add_scheme_table(request, plan, false, json);
  return json["layers"];
}

}  // namespace

TEST_CASE("only policy time and the network file choose factors of convolutions") {
  PlanRequest request = request_with_convolutions();
  CHECK(schemes_in(make_plan(request)) == "ps ps ps sfb ");
  request.scheme = SchemeRule::kSfb;
  CHECK(schemes_in(make_plan(request)) == "ps ps ps sfb ");
  request.layers[0].forced = SchemeRule::kSfb;
  CHECK(schemes_in(make_plan(request)) == "sfb ps ps sfb ");
  CHECK(schemes_in(make_plan(by_time(request_with_convolutions()))) == "ps ps sfb sfb ");
}

TEST_CASE("policy time chooses no factors that take longer to rebuild than they save") {
  PlanRequest request = by_time(request_with_convolutions());
  request.rebuild_gflops = 0.5;  // the late convolution's rebuild takes 7 s
  CHECK(schemes_in(make_plan(request)) == "ps ps ps sfb ");
}

TEST_CASE("the bytes of a convolution's factors are those of its input and deltas") {
  const Plan plan = make_plan(by_time(request_with_convolutions()));
  // 8 samples to one peer and 8 from it, 4 bytes a value
  CHECK(plan.layers[2].bytes == 2 * 8 * 2 * 512 * 49 * 4);
  CHECK(plan.layers[2].formula_bytes[Scheme::kSfb] == plan.layers[2].bytes);
}

TEST_CASE("the table of schemes: bytes, formats, rebuild and reason of each layer") {
  PlanRequest request = request_with_convolutions();
  request.wire = WireFormat::kInt8;
  const Json layers = table_of(request);
  const Json& late = layers[2]["schemes"];
  CHECK(late["ps"]["format"] == "int8");
  CHECK(late["sfb"]["format"] == "bf16");
  CHECK(late["sfb"]["bytes"] == 2 * 8 * 2 * 512 * 49 * 2);
  CHECK(late["sfb"]["rebuild_gflop"].get<double>() ==
        doctest::Approx(2e-9 * 16 * 512 * 512 * 9 * 49));
  CHECK(late["ps"]["rebuild_gflop"] == 0);
  CHECK(layers[1]["schemes"]["sfb"].is_null());
  CHECK(layers[1]["schemes"]["ps"]["format"] == "fp32");
  const std::vector<std::string> reasons{"policy \"time\" would consider sfb", "no factors",
                                         "policy \"time\" would consider sfb", "fewer bytes"};
  for (size_t i = 0; i < reasons.size(); ++i) CHECK(layers[i]["reason"] == reasons[i]);
  // For the chosen scheme, the table has the bytes of the plan, up to unequal servers.
  for (const Json& layer : layers)
    CHECK(layer["schemes"][layer["scheme"].get<std::string>()]["bytes"].get<double>() ==
          doctest::Approx(layer["bytes"].get<double>()).epsilon(0.01));
}

TEST_CASE("the reason for a scheme names the rule that decides") {
  PlanRequest request = request_with_convolutions();
  CHECK(table_of(request)[3]["reason"] == "fewer values (Algorithm 1)");
  CHECK(table_of(by_time(request))[2]["reason"] == "shortest predicted step");
  request.layers[0].forced = SchemeRule::kSfb;
  request.scheme = SchemeRule::kPs;
  const Json layers = table_of(request);
  CHECK(layers[0]["reason"] == "\"scheme\": \"sfb\" in the network file");
  CHECK(layers[3]["reason"] == "\"comm.scheme\": \"ps\"");
  request.workers = request.servers = 1;
  CHECK(table_of(request)[3]["reason"] == "one worker");
}
