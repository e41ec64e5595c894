#include "trainer/report/disk_space.h"

#include <sys/resource.h>

#include <algorithm>

#include "core/counted.h"
#include "core/error.h"
#include "core/memory.h"

namespace poseidon::trainer {

namespace {

/// Bytes reserved for headers of checkpoints and for the small files of a run.
constexpr uint64_t kSmallFiles = 16 << 10;

uint64_t bytes_of_tensors(const std::vector<NamedTensor>& tensors) {
  uint64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.count() * sizeof(float);
  return bytes;
}

int64_t checkpoints_in(const std::filesystem::path& run) {
  std::error_code failure;
  const std::filesystem::directory_iterator files(run / "checkpoints", failure);
  if (failure) return 0;
  return std::ranges::count_if(files, [](const std::filesystem::directory_entry& file) {
    return file.path().extension() == ".state";
  });
}

void check_file_limit(const CheckpointBytes& bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const uint64_t largest = std::max(bytes.weights, bytes.state) + kSmallFiles;
  if (largest <= limit.rlim_cur) return;
  throw ConfigError(text(
      "the limit on the size of a file (ulimit -f) is ", bytes_text(limit.rlim_cur),
      ", but a checkpoint of this run has a file of ", bytes_text(largest), "; raise the limit"));
}

}  // namespace

CheckpointBytes checkpoint_bytes(const RunTensors& tensors, int64_t in_flight) {
  CheckpointBytes bytes{.weights = bytes_of_tensors(tensors.weights),
                        .state = bytes_of_tensors(tensors.optimizer)};
  for (int64_t step = 0; step < in_flight; ++step)
    bytes.state += bytes_of_tensors(tensors.sums[static_cast<size_t>(step)]);
  return bytes;
}

CheckpointBytes checkpoint_bytes(const Json& list, int64_t in_flight) {
  const auto bytes_in = [&](const char* key) {
    uint64_t bytes = 0;
    for (const Json& tensor : list.at(key)) {
      uint64_t count = sizeof(float);
      for (const Json& extent : tensor.at("shape")) count *= extent.get<uint64_t>();
      bytes += count;
    }
    return bytes;
  };
  return {.weights = bytes_in("weights"),
          .state = bytes_in("optimizer") + bytes_in("sums") * static_cast<uint64_t>(in_flight)};
}

uint64_t max_new_checkpoints(const TrainConfig& train, int64_t steps, int64_t existing) {
  const int64_t written = train.checkpoint_every > 0 ? steps / train.checkpoint_every + 1 : 1;
  // At most `keep_checkpoints` newest ones, the best one and the one being written exist at one
  // time.
  const int64_t kept = train.keep_checkpoints > 0 ? train.keep_checkpoints + 2 - existing : written;
  return static_cast<uint64_t>(std::max<int64_t>(1, std::min(written, kept)));
}

void check_disk_space(const std::filesystem::path& run, const CheckpointBytes& bytes,
                      const TrainConfig& train, int64_t steps, Log& log) {
  check_file_limit(bytes);
  std::error_code failure;
  const std::filesystem::space_info disk = std::filesystem::space(run, failure);
  if (failure || disk.capacity == 0) return;  // the file system does not report its size
  const uint64_t one = bytes.weights + bytes.state + kSmallFiles;
  if (disk.available < one)
    throw ConfigError(text(run.string(), ": the disk has ", bytes_text(disk.available),
                           " left, but a checkpoint of this run needs ", bytes_text(one),
                           "; free space, or set --output to a folder on another disk"));
  const uint64_t most = max_new_checkpoints(train, steps, checkpoints_in(run));
  if (disk.available / one < most)
    log.warning(text(run.string(), ": the disk has ", bytes_text(disk.available), " left, but ",
                     counted(most, "more checkpoint"), " of ", bytes_text(one),
                     " may be on it at once (train.checkpoint_every, train.keep_checkpoints)"));
}

}  // namespace poseidon::trainer
