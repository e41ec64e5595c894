// run_orders [FIRST [COUNT]]: trains small jobs on emulated GPUs. Each seed selects an order of
// the GPU work. Most runs stop and continue with another number of workers. The bits must equal
// those of the plain order.

#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/philox.h"
#include "tests/cuda/emulated_gpu_jobs.h"

namespace poseidon::trainer {

namespace {

/// Jobs by number, and their digests in the plain order.
class Jobs {
 public:
  /// The fault of this order of work; "" if there is none.
  std::string fault_of(uint64_t seed) {
    const size_t number = seed % (kEmulatedGpuNetworks.size() * kClusters.size());
    const EmulatedGpuJob gpu_job(kEmulatedGpuNetworks[number % kEmulatedGpuNetworks.size()]);
    const Cluster& cluster = kClusters[number / kEmulatedGpuNetworks.size()];
    try {
      if (!plain_.contains(number)) plain_[number] = train_on_emulated_gpu(gpu_job, cluster, 0);
      return train(gpu_job, cluster, seed) == plain_[number] ? ""
                                                             : "other bits than in the plain order";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

 private:
  /// Many runs stop at a random step and continue with another number of workers if the job allows
  /// it.
  static std::vector<int64_t> train(const EmulatedGpuJob& gpu_job, const Cluster& cluster,
                                    uint64_t seed) {
    RandomStream random(seed, RandomPurpose::kGeneration, 2, 0);
    const int64_t stop = random.next_below(kEmulatedGpuSteps);
    if (stop == 0) return train_on_emulated_gpu(gpu_job, cluster, seed);
    const int workers = 1 + static_cast<int>(random.next_below(5));
    return train_in_two(gpu_job, cluster, other_cluster(cluster, workers), stop, seed);
  }

  std::map<size_t, std::vector<int64_t>> plain_;
};

int play(uint64_t first, uint64_t count) {
  Jobs jobs;
  int faults = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string fault = jobs.fault_of(seed);
    if (fault.empty()) continue;
    ++faults;
    std::printf("seed %llu: %s (again: run_orders %llu 1)\n", static_cast<unsigned long long>(seed),
                fault.c_str(), static_cast<unsigned long long>(seed));
  }
  std::printf("%llu orders of work, %d with faults\n", static_cast<unsigned long long>(count),
              faults);
  return faults == 0 ? 0 : 1;
}

}  // namespace

}  // namespace poseidon::trainer

int main(int count, char** arguments) {
  const auto number = [&](int index, uint64_t otherwise) {
    return index < count ? std::strtoull(arguments[index], nullptr, 10) : otherwise;
  };
  return poseidon::trainer::play(number(1, 1), number(2, 200));
}
