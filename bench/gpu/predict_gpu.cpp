// Computes the least time of each kernel and layer on an H200 from its reads, writes and
// arithmetic. It measures nothing and needs no GPU (docs/gpu.md). SOURCES is the root of the
// repository.
//   predict_gpu SOURCES                        lines for docs/gpu-predictions.tsv
//   predict_gpu SOURCES --table                a table with a row for each network and precision
//   predict_gpu SOURCES --host                 copies and host memory accesses of 1 and 2 workers
//   predict_gpu SOURCES --check                compares the file with the predictions
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

Prediction predict_case(const fs::path& sources, const Case& each, const char* precision,
                        int workers) {
  SilentLog log;
  return predict(
      trainer::load_job(
          {.file = sources / "configs" / (std::string(each.job) + ".json"),
           .overrides = {"device.type=cuda", std::string("device.precision=") + precision,
                         text("data.batch_per_worker=", each.batch), "cluster.logical_shards=0",
                         text("cluster.workers=", workers), text("cluster.servers=", workers / 2),
                         kOptimizer}},
          log),
      kH200);
}

std::vector<Prediction> all_predictions(const fs::path& sources) {
  std::vector<Prediction> predictions;
  for (const Case& each : kCases)
    for (const char* precision : {"fp32", "tf32", "bf16"})
      predictions.push_back(predict_case(sources, each, precision, 1));
  return predictions;
}

/// Predictions of all networks in bf16, with one worker and with two.
std::vector<Prediction> host_predictions(const fs::path& sources) {
  std::vector<Prediction> predictions;
  for (const Case& each : kCases)
    for (const int workers : {1, 2})
      predictions.push_back(predict_case(sources, each, "bf16", workers));
  return predictions;
}

std::string contents_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Returns true if the file consists of these lines. Prints the first missing line.
bool has_lines(const fs::path& file, const std::string& lines) {
  const std::string contents = "\n" + contents_of(file);
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);)
    if (contents.find("\n" + line + "\n") == std::string::npos) {
      std::cerr << file.string() << " lacks the line\n" << line << "\n";
      return false;
    }
  return contents == "\n" + lines;
}

/// Returns true if no kernel accesses host memory. Otherwise prints the first prediction in which a
/// kernel accesses host memory.
bool avoid_host_memory(const std::vector<Prediction>& predictions) {
  for (const Prediction& each : predictions) {
    const double bytes = each.cost_counter.all().kernel_host_bytes;
    if (bytes == 0) continue;
    std::cerr << each.network << ", workers: " << each.workers << ": kernels access " << bytes
              << " bytes of host memory in a step, expected 0\n";
    return false;
  }
  return true;
}

int check_document(const fs::path& sources, const std::vector<Prediction>& predictions) {
  if (has_lines(sources / "docs/gpu-predictions.tsv", lines_of(predictions))) return 0;
  std::cerr << "The predictions have changed. Write docs/gpu-predictions.tsv with predict_gpu "
               "SOURCES\n";
  return 1;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2 || count > 3) {
    std::cerr << "usage: predict_gpu SOURCES [--table | --host | --check]\n";
    return 2;
  }
  const std::string_view what = count > 2 ? arguments[2] : "";
  if (what == "--host") {
    std::cout << host_lines_of(host_predictions(arguments[1]));
    return std::cout.flush() ? 0 : 1;
  }
  const std::vector<Prediction> predictions = all_predictions(arguments[1]);
  if (what == "--check")
    return avoid_host_memory(host_predictions(arguments[1]))
               ? check_document(arguments[1], predictions)
               : 1;
  std::cout << (what == "--table" ? table_of(predictions) : lines_of(predictions));
  return std::cout.flush() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "predict_gpu: " << error.what() << "\n";
  return 1;
}
