#include "importer/torchvision_archs.h"

#include "core/error.h"

namespace poseidon::importer {

namespace {

using Pairs = std::vector<LayerPair>;

constexpr std::array<double, 3> kImageNetMean{123.675, 116.28, 103.53};
constexpr std::array<double, 3> kImageNetDeviation{58.395, 57.12, 57.375};
/// For inception_v3 and googlenet, torchvision applies the normalization of ImageNet. Their
/// transform_input then converts the result to values of -1 to 1. This constant, as mean and as
/// deviation, has the effect of both steps.
constexpr std::array<double, 3> kHalfRange{127.5, 127.5, 127.5};

template <class... Parts>
void add(Pairs& pairs, std::string poseidon_name, const Parts&... torchvision_name) {
  pairs.push_back({std::move(poseidon_name), text(torchvision_name...)});
}

// ---- alexnet

Pairs alexnet() {
  return {{"conv1", "features.0"}, {"conv2", "features.3"},  {"conv3", "features.6"},
          {"conv4", "features.8"}, {"conv5", "features.10"}, {"fc1", "classifier.1"},
          {"fc2", "classifier.4"}, {"fc3", "classifier.6"}};
}

// ---- vgg: the index in "features" counts convolutions, ReLUs and poolings.

/// `name` returns Poseidon's name of a convolution from its stage and its index in the stage, both
/// counted from 0.
template <class Name>
Pairs vgg(std::array<int, 5> convolutions, const Name& name) {
  Pairs pairs;
  int feature = 0;
  for (int stage = 0; stage < 5; ++stage, ++feature)
    for (int i = 0; i < convolutions[static_cast<size_t>(stage)]; ++i, feature += 2)
      add(pairs, name(stage, i), "features.", feature);
  add(pairs, "fc6", "classifier.0");
  add(pairs, "fc7", "classifier.3");
  add(pairs, "fc8", "classifier.6");
  return pairs;
}

std::string flat_name(int stage, int i) { return text("conv", stage + 1, "_", i + 1); }
std::string name_in_block(int stage, int i) { return text("stage", stage + 1, ".", i, ".conv"); }

Pairs vgg11() { return vgg({1, 1, 2, 2, 2}, flat_name); }
Pairs vgg16() { return vgg({2, 2, 3, 3, 3}, name_in_block); }
Pairs vgg19() { return vgg({2, 2, 4, 4, 4}, flat_name); }

// ---- resnet

/// In Poseidon, a stage that begins with a projection, such as stage 2, is a block "stage2_first",
/// then the repeated block "stage2".
Pairs resnet(std::array<int, 4> blocks, int convolutions) {
  Pairs pairs{{"conv1", "conv1"}, {"bn1", "bn1"}};
  for (int stage = 1; stage <= 4; ++stage) {
    const bool projects = stage > 1 || convolutions == 3;
    for (int block = 0; block < blocks[static_cast<size_t>(stage - 1)]; ++block) {
      const bool first = projects && block == 0;
      const std::string poseidon_name =
                            first ? text("stage", stage, "_first.")
                                  : text("stage", stage, ".", block - (projects ? 1 : 0), "."),
                        torchvision_name = text("layer", stage, ".", block, ".");
      for (int i = 1; i <= convolutions; ++i) {
        add(pairs, text(poseidon_name, "conv", i), torchvision_name, "conv", i);
        add(pairs, text(poseidon_name, "bn", i), torchvision_name, "bn", i);
      }
      if (!first) continue;
      add(pairs, poseidon_name + "project", torchvision_name, "downsample.0");
      add(pairs, poseidon_name + "project_bn", torchvision_name, "downsample.1");
    }
  }
  add(pairs, "fc", "fc");
  return pairs;
}

Pairs resnet18() { return resnet({2, 2, 2, 2}, 2); }
Pairs resnet50() { return resnet({3, 4, 6, 3}, 3); }
Pairs resnet152() { return resnet({3, 8, 36, 3}, 3); }

// ---- mobilenet_v2, efficientnet_b0: in Poseidon, a stage such as stage 2 is the block
// "stage2_first", then the blocks "stage2.N.branch". Stages 1 and 7 have a single block, "stage1"
// and "stage7".

struct MobileBlock {
  int stage;  ///< counted from 1
  int index;  ///< index in its stage, counted from 0
  std::string poseidon_name;
};

std::vector<MobileBlock> mobile_blocks(std::array<int, 7> counts) {
  std::vector<MobileBlock> blocks;
  for (int stage = 1; stage <= 7; ++stage) {
    const bool single = stage == 1 || stage == 7;
    blocks.push_back({stage, 0, text("stage", stage, single ? "." : "_first.")});
    for (int i = 1; i < counts[static_cast<size_t>(stage - 1)]; ++i)
      blocks.push_back({stage, i, text("stage", stage, ".", i - 1, ".branch.")});
  }
  return blocks;
}

/// Adds the convolution and the batch norm of a block "unit".
void add_unit(Pairs& pairs, const std::string& poseidon_name, const std::string& torchvision_name) {
  add(pairs, poseidon_name + ".conv", torchvision_name, ".0");
  add(pairs, poseidon_name + ".bn", torchvision_name, ".1");
}

Pairs mobilenet_v2() {
  Pairs pairs;
  add_unit(pairs, "stem", "features.0");
  int feature = 1;
  for (const MobileBlock& block : mobile_blocks({1, 2, 3, 4, 3, 3, 1})) {
    const std::string torchvision_name = text("features.", feature++, ".conv."),
                      narrow = block.poseidon_name + (block.stage == 1 ? "" : "narrow.");
    int module = 0;
    if (block.stage > 1)
      add_unit(pairs, block.poseidon_name + "expand", text(torchvision_name, module++));
    add_unit(pairs, narrow + "depthwise", text(torchvision_name, module++));
    add(pairs, narrow + "project", torchvision_name, module++);
    add(pairs, narrow + "project_bn", torchvision_name, module++);
  }
  add_unit(pairs, "last", text("features.", feature));
  add(pairs, "fc", "classifier.1");
  return pairs;
}

Pairs efficientnet_b0() {
  Pairs pairs;
  add_unit(pairs, "stem", "features.0");
  for (const MobileBlock& block : mobile_blocks({1, 2, 2, 3, 3, 4, 1})) {
    const std::string torchvision_name =
                          text("features.", block.stage, ".", block.index, ".block."),
                      narrow = block.poseidon_name + (block.stage == 1 ? "" : "narrow.");
    int module = 0;
    if (block.stage > 1)
      add_unit(pairs, block.poseidon_name + "expand", text(torchvision_name, module++));
    add_unit(pairs, narrow + "depthwise", text(torchvision_name, module++));
    add(pairs, narrow + "squeeze", torchvision_name, module, ".fc1");
    add(pairs, narrow + "excite", torchvision_name, module++, ".fc2");
    add(pairs, narrow + "project", torchvision_name, module, ".0");
    add(pairs, narrow + "project_bn", torchvision_name, module, ".1");
  }
  add_unit(pairs, "last", "features.8");
  add(pairs, "fc", "classifier.1");
  return pairs;
}

// ---- inception_v3

struct InceptionUnit {
  const char *poseidon_name, *torchvision_name;
};
using InceptionBlock = std::vector<InceptionUnit>;

const InceptionBlock kWide35{{"one", "branch1x1"},         {"five1", "branch5x5_1"},
                             {"five2", "branch5x5_2"},     {"three1", "branch3x3dbl_1"},
                             {"three2", "branch3x3dbl_2"}, {"three3", "branch3x3dbl_3"},
                             {"pooled", "branch_pool"}};
const InceptionBlock kTo17{{"three", "branch3x3"},
                           {"twice1", "branch3x3dbl_1"},
                           {"twice2", "branch3x3dbl_2"},
                           {"twice3", "branch3x3dbl_3"}};
const InceptionBlock kWide17{{"one", "branch1x1"},         {"seven1", "branch7x7_1"},
                             {"seven2", "branch7x7_2"},    {"seven3", "branch7x7_3"},
                             {"twice1", "branch7x7dbl_1"}, {"twice2", "branch7x7dbl_2"},
                             {"twice3", "branch7x7dbl_3"}, {"twice4", "branch7x7dbl_4"},
                             {"twice5", "branch7x7dbl_5"}, {"pooled", "branch_pool"}};
const InceptionBlock kTo8{{"three1", "branch3x3_1"},   {"three2", "branch3x3_2"},
                          {"seven1", "branch7x7x3_1"}, {"seven2", "branch7x7x3_2"},
                          {"seven3", "branch7x7x3_3"}, {"seven4", "branch7x7x3_4"}};
const InceptionBlock kWide8{{"one", "branch1x1"},
                            {"three1", "branch3x3_1"},
                            {"three2.across", "branch3x3_2a"},
                            {"three2.down", "branch3x3_2b"},
                            {"twice1", "branch3x3dbl_1"},
                            {"twice2", "branch3x3dbl_2"},
                            {"twice3.across", "branch3x3dbl_3a"},
                            {"twice3.down", "branch3x3dbl_3b"},
                            {"pooled", "branch_pool"}};
const InceptionBlock kHead{{"reduce", "conv0"}, {"five", "conv1"}};
const InceptionBlock kGoogleBlock{{"one", "branch1"},     {"reduce2", "branch2.0"},
                                  {"two", "branch2.1"},   {"reduce3", "branch3.0"},
                                  {"three", "branch3.1"}, {"pooled", "branch4.1"}};

void add_inception(Pairs& pairs, const InceptionBlock& units, const std::string& poseidon_name,
                   const std::string& torchvision_name) {
  for (const InceptionUnit& unit : units) {
    add(pairs, text(poseidon_name, unit.poseidon_name, ".conv"), torchvision_name,
        unit.torchvision_name, ".conv");
    add(pairs, text(poseidon_name, unit.poseidon_name, ".bn"), torchvision_name,
        unit.torchvision_name, ".bn");
  }
}

/// The auxiliary head is in the middle of the list, as in torchvision's state dict.
Pairs inception(bool with_head) {
  Pairs pairs;
  add_inception(pairs,
                {{"stem1", "Conv2d_1a_3x3"},
                 {"stem2", "Conv2d_2a_3x3"},
                 {"stem3", "Conv2d_2b_3x3"},
                 {"stem4", "Conv2d_3b_1x1"},
                 {"stem5", "Conv2d_4a_3x3"}},
                "", "");
  add_inception(pairs, kWide35, "mixed1.", "Mixed_5b.");
  add_inception(pairs, kWide35, "mixed2.0.", "Mixed_5c.");
  add_inception(pairs, kWide35, "mixed2.1.", "Mixed_5d.");
  add_inception(pairs, kTo17, "mixed4.", "Mixed_6a.");
  add_inception(pairs, kWide17, "mixed5.", "Mixed_6b.");
  add_inception(pairs, kWide17, "mixed6.0.", "Mixed_6c.");
  add_inception(pairs, kWide17, "mixed6.1.", "Mixed_6d.");
  add_inception(pairs, kWide17, "mixed8.", "Mixed_6e.");
  if (with_head) {
    add_inception(pairs, kHead, "head.", "AuxLogits.");
    add(pairs, "head.fc", "AuxLogits.fc");
  }
  add_inception(pairs, kTo8, "mixed9.", "Mixed_7a.");
  add_inception(pairs, kWide8, "mixed10.0.", "Mixed_7b.");
  add_inception(pairs, kWide8, "mixed10.1.", "Mixed_7c.");
  add(pairs, "fc", "fc");
  return pairs;
}

Pairs inception_v3() { return inception(true); }
Pairs inception_v3_plain() { return inception(false); }

// ---- googlenet

Pairs google(bool with_heads) {
  Pairs pairs;
  add_inception(pairs, {{"stem1", "conv1"}, {"stem2", "conv2"}, {"stem3", "conv3"}}, "", "");
  for (const char* block : {"3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"})
    add_inception(pairs, kGoogleBlock, text("inception", block, "."),
                  text("inception", block, "."));
  for (int head = 1; with_heads && head <= 2; ++head) {
    const std::string poseidon_name = text("head", head, "."),
                      torchvision_name = text("aux", head, ".");
    add_inception(pairs, {{"reduce", "conv"}}, poseidon_name, torchvision_name);
    add(pairs, poseidon_name + "fc1", torchvision_name, "fc1");
    add(pairs, poseidon_name + "fc2", torchvision_name, "fc2");
  }
  add(pairs, "fc", "fc");
  return pairs;
}

Pairs googlenet() { return google(true); }
Pairs googlenet_plain() { return google(false); }

TorchvisionArch usual(std::string_view name, std::string_view network, double epsilon,
                      Pairs (*layers)()) {
  return {.name = name,
          .network = network,
          .epsilon = epsilon,
          .mean = kImageNetMean,
          .deviation = kImageNetDeviation,
          .layers = layers};
}

/// Creates the entry of a network with batch norm epsilon 1e-3 and with transform_input.
TorchvisionArch of_inception(std::string_view name, std::string_view network, int64_t resize_short,
                             Pairs (*layers)()) {
  return {.name = name,
          .network = network,
          .epsilon = 1e-3,
          .resize_short = resize_short,
          .mean = kHalfRange,
          .deviation = kHalfRange,
          .layers = layers};
}

const TorchvisionArch& arch_by(std::string_view TorchvisionArch::*which, const std::string& name) {
  std::string known;
  for (const TorchvisionArch& arch : torchvision_archs()) {
    if (arch.*which == name) return arch;
    known += text(known.empty() ? "" : ", ", arch.name);
  }
  throw ConfigError(text("--arch: expected one of ", known, ", got \"", name, "\""));
}

}  // namespace

const std::vector<TorchvisionArch>& torchvision_archs() {
  static const std::vector<TorchvisionArch> kArchs{
      usual("alexnet", "alexnet-torchvision", 0, alexnet),
      usual("efficientnet_b0", "efficientnet_b0", 1e-5, efficientnet_b0),
      of_inception("googlenet", "googlenet-torchvision", 256, googlenet),
      of_inception("googlenet-plain", "googlenet-torchvision-plain", 256, googlenet_plain),
      of_inception("inception_v3", "inception_v3", 342, inception_v3),
      of_inception("inception_v3-plain", "inception_v3-plain", 342, inception_v3_plain),
      usual("mobilenet_v2", "mobilenet_v2", 1e-5, mobilenet_v2),
      usual("resnet152", "resnet152", 1e-5, resnet152),
      usual("resnet18", "resnet18", 1e-5, resnet18),
      usual("resnet50", "resnet50", 1e-5, resnet50),
      usual("vgg11", "vgg11", 0, vgg11),
      usual("vgg16", "vgg16", 0, vgg16),
      usual("vgg19", "vgg19", 0, vgg19),
  };
  return kArchs;
}

const TorchvisionArch& torchvision_arch(const std::string& name) {
  return arch_by(&TorchvisionArch::name, name);
}

const TorchvisionArch& torchvision_arch_of(const std::string& network) {
  return arch_by(&TorchvisionArch::network, network);
}

}  // namespace poseidon::importer
