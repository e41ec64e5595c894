// Predicts the time of each kernel and layer on an H200 from its reads, writes and arithmetic.
// It measures nothing and needs no GPU (docs/gpu.md). SOURCES is the root of the repository.
//   predict_gpu SOURCES                        lines for docs/gpu-predictions.tsv
//   predict_gpu SOURCES --table                the table of docs/gpu.md
//   predict_gpu SOURCES --check                compares both files with the predictions
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "bench/gpu/prediction.h"
#include "core/error.h"

using namespace poseidon;
using namespace poseidon::bench;
namespace fs = std::filesystem;

namespace {

struct Case {
  const char* job;
  int batch;
};
/// The jobs that bench/gpu/first_light times. All have one logical shard and the optimizer that
/// PyTorch uses in the comparison.
constexpr Case kCases[] = {{"cifar10_quick-random", 1024}, {"alexnet-random", 256},
                           {"vgg19-random", 128},          {"resnet50-random", 128},
                           {"googlenet-random", 128},      {"inception_v3-random", 128},
                           {"resnet152-random", 64}};

constexpr const char* kOptimizer =
    R"(optimizer={"type":"sgd","learning_rate":0.01,"momentum":0.9,"weight_decay":0.0005})";

std::vector<Prediction> all_predictions(const fs::path& sources) {
  std::vector<Prediction> predictions;
  SilentLog log;
  for (const Case& each : kCases)
    for (const char* precision : {"fp32", "tf32", "bf16"}) {
      const trainer::Job job = trainer::load_job(
          {.file = sources / "configs" / (std::string(each.job) + ".json"),
           .overrides = {"device.type=cuda", std::string("device.precision=") + precision,
                         text("data.batch_per_worker=", each.batch), "cluster.logical_shards=0",
                         kOptimizer}},
          log);
      predictions.push_back(predict(job, kH200));
    }
  return predictions;
}

std::string contents_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Returns true if the file contains each of these lines. Prints the first missing line.
bool has_lines(const fs::path& file, const std::string& lines) {
  const std::string contents = "\n" + contents_of(file);
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);)
    if (contents.find("\n" + line + "\n") == std::string::npos) {
      std::cerr << file.string() << " lacks the line\n" << line << "\n";
      return false;
    }
  return true;
}

int check_documents(const fs::path& sources, const std::vector<Prediction>& predictions) {
  const fs::path file = sources / "docs/gpu-predictions.tsv";
  const std::string lines = lines_of(predictions);
  const bool same = has_lines(file, lines) && contents_of(file) == lines;
  const bool stated = has_lines(sources / "docs/gpu.md", table_of(predictions));
  if (same && stated) return 0;
  std::cerr
      << "The predictions have changed. Write docs/gpu-predictions.tsv with predict_gpu SOURCES, "
         "and the table of docs/gpu.md with predict_gpu SOURCES --table\n";
  return 1;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2 || count > 3) {
    std::cerr << "usage: predict_gpu SOURCES [--table | --check]\n";
    return 2;
  }
  const std::string_view what = count > 2 ? arguments[2] : "";
  const std::vector<Prediction> predictions = all_predictions(arguments[1]);
  if (what == "--check") return check_documents(arguments[1], predictions);
  std::cout << (what == "--table" ? table_of(predictions) : lines_of(predictions));
  return std::cout.flush() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "predict_gpu: " << error.what() << "\n";
  return 1;
}
