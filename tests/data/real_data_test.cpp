// Public data sets, if they are in ${POSEIDON_DATA} or ../shared/data.

#include <doctest/doctest.h>

#include <cstdlib>

#include "data/loader.h"
#include "data/mnist.h"
#include "data/pack.h"
#include "data/record_set.h"
#include "tests/data/made_files.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

namespace fs = std::filesystem;

/// The path of a data set, or "" and a message if it is missing.
std::string find(const std::string& name) {
  const char* set = std::getenv("POSEIDON_DATA");
  for (const fs::path& root :
       {fs::path(set != nullptr ? set : ""), fs::path(test::source_folder()) / "../shared/data"})
    if (fs::exists(root / name)) return (root / name).string();
  MESSAGE("skipped: no " << name << " in ${POSEIDON_DATA} or ../shared/data");
  return "";
}

}  // namespace

TEST_CASE("real data: the MNIST test set has its known size and first label") {
  const std::string path = find("mnist");
  if (path.empty()) return;
  const auto dataset = open_mnist(path, "test");
  CHECK(dataset->size() == 10000);
  CHECK(dataset->description().shape == Shape{1, 28, 28});
  Sample sample;
  dataset->read(0, sample);
  CHECK(sample.label == 7);  // the well-known first test digit
}

TEST_CASE("real data: photographs are packed and loaded") {
  const std::string path = find("imagenet-sample/imagenet-sample-250.tar");
  if (path.empty()) return;
  const made::Folder folder;
  PackOptions pack;
  pack.inputs = {path};
  pack.output = folder / "set";
  pack.prefix = "train";
  SilentLog log;
  CHECK(pack_samples(pack, log, [](int64_t, int64_t) {}).samples == 250);
  const auto dataset = open_record_set((folder / "set").string());
  CHECK(dataset->classes().size() == 250);
  TransformConfig config;
  config.random_resized_crop.present = true;
  config.random_resized_crop.size = {64, 64};
  config.mirror = true;
  const Transform transform(config, {3, 64, 64}, Phase::kTrain, 1);
  LoaderOptions options;
  options.global_batch = 25;
  options.shards = {{0, 25}};
  options.threads = 2;
  Loader loader(*dataset, transform, options, log);
  double sum = 0;
  for (int i = 0; i < 2; ++i)
    for (float value : loader.next().values.floats) sum += static_cast<double>(value);
  CHECK(sum / (50 * 3 * 64 * 64) > 60);
  CHECK(sum / (50 * 3 * 64 * 64) < 180);
}
