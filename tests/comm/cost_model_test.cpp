#include "comm/plan/cost_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace poseidon::comm;

namespace {

constexpr WeightShape kFc6{4096, 25088}, kFc7{4096, 4096}, kFc8{1000, 4096}, kFc8Of22K{21841, 4096};

ClusterSize colocated(int nodes) {
  return {static_cast<double>(nodes), static_cast<double>(nodes)};
}

double elements(WeightShape weight) { return weight.rows * weight.columns; }

/// A row of the reference table: floats that a node moves, with 32 samples per worker.
struct Row {
  WeightShape weight;
  int nodes;
  double ps, sfb, adam;
};

}  // namespace

TEST_CASE("floats sent per node for VGG19's linear layers, by strategy") {
  const std::vector<Row> rows{{kFc6, 2, 205520896, 1867776, 103694336},
                              {kFc6, 4, 308281344, 5603328, 311083008},
                              {kFc6, 8, 359661568, 13074432, 725860352},
                              {kFc6, 16, 385351680, 28016640, 1555415040},
                              {kFc6, 32, 398196736, 57901056, 3214524416},
                              {kFc7, 2, 33554432, 524288, 17039360},
                              {kFc7, 4, 50331648, 1572864, 51118080},
                              {kFc7, 8, 58720256, 3670016, 119275520},
                              {kFc7, 16, 62914560, 7864320, 255590400},
                              {kFc7, 32, 65011712, 16252928, 528220160},
                              {kFc8, 2, 8192000, 326144, 4259072},
                              {kFc8, 4, 12288000, 978432, 12777216},
                              {kFc8, 8, 14336000, 2283008, 29813504},
                              {kFc8, 16, 15360000, 4892160, 63886080},
                              {kFc8, 32, 15872000, 10110464, 132031232},
                              {kFc8Of22K, 2, 178921472, 1659968, 90290720},
                              {kFc8Of22K, 4, 268382208, 4979904, 270872160},
                              {kFc8Of22K, 8, 313112576, 11619776, 632035040},
                              {kFc8Of22K, 16, 335477760, 24899520, 1354360800},
                              {kFc8Of22K, 32, 346660352, 51459008, 2799012320}};
  for (const Row& row : rows) {
    CAPTURE(row.weight.rows);
    CAPTURE(row.nodes);
    const ClusterSize cluster = colocated(row.nodes);
    CHECK(ps_floats(elements(row.weight), cluster).both == row.ps);
    CHECK(sfb_floats(row.weight, 32, cluster) == row.sfb);
    CHECK(adam_floats(row.weight, 32, cluster).both == row.adam);
    CHECK(factors_are_chosen(row.weight, 32, cluster));
  }
}

TEST_CASE("the example of the papers, for each kind of node") {
  const NodeFloats ps = ps_floats(elements(kFc7), colocated(8));
  CHECK(ps.worker == 33554432);
  CHECK(ps.server == 33554432);
  CHECK(ps.both == 58720256);
  CHECK(sfb_floats(kFc7, 32, colocated(8)) == 3670016);
  const NodeFloats adam = adam_floats(kFc7, 32, {.workers = 8, .servers = 1});
  CHECK(adam.worker == 32 * 8192 + 16777216);
  CHECK(adam.server == 8 * (16777216 + 32 * 8192));
  // The number of servers differs from that of workers.
  CHECK(ps_floats(1000, {.workers = 4, .servers = 2}).server == 4000);
  CHECK(ps_floats(1000, {.workers = 4, .servers = 2}).both == 4000);
}

TEST_CASE("factors are chosen while they send no more than a parameter server does") {
  struct Layer {
    WeightShape weight;
    double batch;
    std::string at_2_4_8_16_32;  ///< for 2 to 32 nodes: S for factors, P for parameter server
  };
  const std::vector<Layer> layers{
      {kFc6, 32, "SSSSS"},          {kFc7, 32, "SSSSS"},          {kFc8, 32, "SSSSS"},
      {kFc8Of22K, 32, "SSSSS"},     {{4096, 9216}, 256, "SSSSP"}, {{4096, 4096}, 256, "SSSSP"},
      {{1000, 4096}, 256, "SSPPP"}, {{1000, 1024}, 128, "SSPPP"}, {{1000, 1024}, 32, "SSSSP"},
      {{1024, 2048}, 32, "SSSSS"},  {{1000, 2048}, 32, "SSSSS"},  {{500, 800}, 64, "SSSPP"},
      {{64, 1024}, 50, "SPPPP"},    {{64, 1024}, 100, "PPPPP"}};
  for (const Layer& layer : layers) {
    std::string chosen;
    for (const int nodes : {2, 4, 8, 16, 32})
      chosen += factors_are_chosen(layer.weight, layer.batch, colocated(nodes)) ? 'S' : 'P';
    CAPTURE(layer.weight.rows);
    CAPTURE(layer.weight.columns);
    CHECK(chosen == layer.at_2_4_8_16_32);
  }
  CHECK(ps_floats(elements(kFc7), colocated(16)).both == 62914560);
  CHECK(sfb_floats(kFc7, 256, colocated(16)) == 62914560);
  CHECK_FALSE(factors_are_chosen(kFc7, 256.001, colocated(16)));
  CHECK_FALSE(factors_are_chosen(kFc7, 256, colocated(17)));
}

TEST_CASE("the largest number of nodes for which factors are chosen") {
  const auto last_with_factors = [](WeightShape weight, double batch) {
    int nodes = 2;
    while (factors_are_chosen(weight, batch, colocated(nodes))) ++nodes;
    return nodes - 1;
  };
  CHECK(last_with_factors(kFc6, 32) == 220);
  CHECK(last_with_factors(kFc7, 32) == 128);
  CHECK(last_with_factors(kFc8, 32) == 50);
  CHECK(last_with_factors(kFc8Of22K, 32) == 215);
  CHECK(last_with_factors({4096, 9216}, 256) == 22);
  CHECK(last_with_factors({4096, 4096}, 256) == 16);
  CHECK(last_with_factors({1000, 4096}, 256) == 6);
  CHECK(last_with_factors({1000, 1024}, 128) == 7);
  CHECK(last_with_factors({1000, 1024}, 32) == 31);
  CHECK(last_with_factors({1024, 2048}, 32) == 42);
  CHECK(last_with_factors({1000, 2048}, 32) == 41);
  CHECK(last_with_factors({500, 800}, 64) == 9);
  CHECK(last_with_factors({64, 1024}, 50) == 2);
  CHECK(last_with_factors({64, 1024}, 100) == 1);
}

TEST_CASE("the largest batch for which factors are chosen") {
  const auto largest_batches = [](WeightShape weight) {
    std::vector<int> batches;
    for (const int nodes : {2, 4, 8, 16, 32}) {
      int batch = 1;
      while (factors_are_chosen(weight, batch + 1, colocated(nodes))) ++batch;
      batches.push_back(batch);
    }
    return batches;
  };
  CHECK(largest_batches(kFc6) == std::vector{3521, 1760, 880, 440, 220});
  CHECK(largest_batches(kFc7) == std::vector{2048, 1024, 512, 256, 128});
  CHECK(largest_batches(kFc8) == std::vector{803, 401, 200, 100, 50});
  CHECK(largest_batches(kFc8Of22K) == std::vector{3449, 1724, 862, 431, 215});
}

TEST_CASE("the FLOP of rebuilding gradients from factors") {
  const auto gigaflop = [](WeightShape weight) {
    return rebuild_flop(weight.rows * weight.columns, 32, colocated(32)) / 1e9;
  };
  CHECK(gigaflop(kFc6) == doctest::Approx(210.5).epsilon(0.001));
  CHECK(gigaflop(kFc7) == doctest::Approx(34.4).epsilon(0.002));
  CHECK(gigaflop(kFc8Of22K) == doctest::Approx(183.2).epsilon(0.001));
  CHECK(gigaflop(kFc8) == doctest::Approx(8.4).epsilon(0.002));
  CHECK(gigaflop(kFc6) + gigaflop(kFc7) + gigaflop(kFc8Of22K) ==
        doctest::Approx(428).epsilon(0.001));
}

TEST_CASE("step times of the three schedules equal values computed by hand") {
  // Two layers. Backward: 3 for the second one, 4 for the first one. Forward: 2 for the first one,
  // 1 for the second one.
  const std::vector<LayerStep> free{{2, 4, 0}, {1, 3, 0}};
  CHECK(step_without_overlap(free) == 10);
  CHECK(step_with_barrier(free) == 10);
  CHECK(step_with_priority(free) == 10);
  // The second layer's 5 are sent while the first layer's 4 are computed. One unit remains.
  const std::vector<LayerStep> last{{2, 4, 0}, {1, 3, 5}};
  CHECK(step_without_overlap(last) == 15);
  CHECK(step_with_barrier(last) == 11);
  CHECK(step_with_priority(last) == 10);
  // The first layer's transfer delays the step in both schedules.
  const std::vector<LayerStep> first{{2, 4, 5}, {1, 3, 0}};
  CHECK(step_with_barrier(first) == 15);
  CHECK(step_with_priority(first) == 15);
  // The link is the bottleneck.
  const std::vector<LayerStep> slow{{2, 4, 1}, {1, 3, 50}};
  CHECK(step_without_overlap(slow) == 61);
  CHECK(step_with_barrier(slow) == 57);
  CHECK(step_with_priority(slow) == 55);
  CHECK(step_with_priority(std::vector<LayerStep>{{1, 1, 0}, {0, 0, 9}, {1, 1, 0}}) == 11);
  CHECK(step_with_priority({}) == 0);
}
