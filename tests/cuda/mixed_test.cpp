// A job with CPU workers and workers on emulated GPUs: replicas are bitwise equal.

#include <doctest/doctest.h>

#include <map>

#include "layers/cpu/backend.h"
#include "tests/cuda/emulated_gpu_jobs.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// Makes backends alternately for CPUs and GPUs, one for each worker.
MakeBackend by_turns(bool gpu_first) {
  return [gpu_first](size_t number) {
    const bool gpu = (number % 2 == 0) == gpu_first;
    return gpu ? test::make_emulated_gpu_backend({})
               : layers::cpu::make_cpu_backend(1, DataType::kFp32);
  };
}

/// Gives worker 0 most shards, so that its range is no node of the tree of additions.
comm::Assignment uneven(const Job& job) {
  const comm::PlanRequest request = plan_request(job);
  std::vector<int64_t> counts(static_cast<size_t>(request.workers), 1);
  counts[0] += request.logical_shards - request.workers;
  return comm::assignment_by_counts(counts, request.servers, request.servers_apart);
}

/// Digests of all replicas after each step, and the losses of worker 0.
struct Course {
  explicit Course(size_t workers) : worker_digests(workers) {}
  std::vector<std::vector<std::vector<int64_t>>> worker_digests;  ///< by worker and step
  std::vector<double> losses;
};

Course course_of(const Job& job, int64_t steps, const MakeBackend& backend) {
  Course course(static_cast<size_t>(job.config.cluster.workers));
  JoinedJob all(job, {.steps = steps,
                      .assignment = uneven(job),
                      .drained = [&](size_t worker, const std::vector<int64_t>& digests,
                                     const StepReport& report) {
                        course.worker_digests[worker].push_back(digests);
                        if (worker == 0) course.losses.push_back(report.shards[0].loss);
                      }});
  train_in_parallel(all, backend);
  return course;
}

/// The number of equal steps before two replicas differ; -1 if they never differ.
int64_t first_difference(const Course& course) {
  for (size_t step = 0; step < course.worker_digests[0].size(); ++step)
    for (const auto& worker : course.worker_digests)
      if (worker[step] != course.worker_digests[0][step]) return static_cast<int64_t>(step);
  return -1;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::vector<std::string> words_of(int workers, std::vector<std::string> more,
                                  const std::string& scheme = "ps") {
  more.insert(more.end(),
              {"cluster.workers=" + std::to_string(workers), "cluster.servers=1",
               "cluster.logical_shards=5", "data.global_batch=20", "comm.scheme=" + scheme});
  return more;
}

/// The CPU's updates with a fault: from the 30th update on, the learning rate is larger by one unit
/// in the last place.
class RoundsOtherwise final : public layers::Updater {
 public:
  explicit RoundsOtherwise(std::unique_ptr<layers::Updater> right) : right_(std::move(right)) {}
  void update(const layers::UpdateForm& form, const layers::UpdateParameters* numbers,
              const layers::UpdateMemory& memory) override {
    layers::UpdateParameters wrong = *numbers;
    if (++updates_ >= kWrongUpdate) wrong.learning_rate = std::nextafter(wrong.learning_rate, 1.0F);
    right_->update(form, &wrong, memory);
  }
  void track(const layers::Tracking& numbers, std::span<const float> value,
             std::span<const float> sum, std::span<float> next) override {
    right_->track(numbers, value, sum, next);
  }
  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    right_->average(rate, average, value, next);
  }
  void swap(std::span<float> a, std::span<float> b) override { right_->swap(a, b); }
  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    right_->add(a, b, sum);
  }
  double squared_norm(std::span<const float> values) override {
    return right_->squared_norm(values);
  }

 private:
  static constexpr int kWrongUpdate = 30;
  const std::unique_ptr<layers::Updater> right_;
  int updates_ = 0;
};

/// Convolutions with padding, with groups, and with a kernel that skips cells.
constexpr const char* kFactoredConvolutions = R"({
  "name": "factored-convolutions", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1,
     "scheme": "sfb"},
    {"name": "relu1", "type": "relu"},
    {"name": "conv2", "type": "convolution", "outputs": 6, "kernel": [3, 2], "groups": 2,
     "scheme": "sfb"},
    {"name": "conv3", "type": "convolution", "outputs": 8, "kernel": 1, "stride": 2,
     "bias": false, "scheme": "sfb"},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

}  // namespace

TEST_CASE("CPUs and GPUs in one job: replicas are equal after each of 200 steps") {
  const TinyJob tiny;
  const Job job = tiny.load(words_of(2, {"train.steps=200"}));
  const Course course = course_of(job, 200, by_turns(false));
  CHECK(first_difference(course) == -1);
  REQUIRE(course.losses.size() == 200);
  CHECK(mean(std::span(course.losses).last(40)) < 0.9 * mean(std::span(course.losses).first(40)));
}

TEST_CASE(
    "CPUs and GPUs in one job: replicas are equal with each optimizer, late sums and each wire") {
  for (const int workers : {2, 3}) {
    const TinyJob tiny(workers == 2 ? kTinyNetwork : kSmallResNet);
    for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
             {"comm.staleness=1"},
             {"optimizer.clip_norm=0.5"},
             {"optimizer.clip_norm=0.5", "comm.staleness=1", "comm.wire=bf16"},
             {"optimizer.type=lars"},
             {"optimizer.type=adam", "comm.staleness=1"},
             {"optimizer.type=adamw", "comm.wire=bf16"},
             {"comm.wire=int8", "comm.staleness=1"},
             {"comm.wire=int8", "cluster.logical_shards=6"},
             {"optimizer.type=rmsprop", "optimizer.average_decay=0.5"}}) {
      const std::string first = more[0] + (more.size() > 1 ? " " + more[1] : "");
      CAPTURE(first);
      CAPTURE(workers);
      const Course course =
          course_of(tiny.load(words_of(workers, more)), 5, by_turns(workers == 3));
      CHECK(first_difference(course) == -1);
    }
  }
}

TEST_CASE("CPUs and GPUs in one job: replicas with factors are equal after each of 200 steps") {
  const TinyJob tiny;
  const Job job = tiny.load(words_of(2, {"train.steps=200"}, "sfb"));
  CHECK(first_difference(course_of(job, 200, by_turns(false))) == -1);
}

TEST_CASE("CPUs and GPUs in one job: replicas with factors are equal with each wire and overlap") {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"optimizer.clip_norm=0.5"},
                                             {"comm.staleness=1", "comm.wire=bf16"},
                                             {"comm.wire=int8"},
                                             {"optimizer.type=adam", "comm.overlap=barrier"}}) {
    CAPTURE(more[0]);
    const TinyJob tiny(kSmallLenet);
    CHECK(first_difference(course_of(tiny.load(words_of(3, more, "sfb")), 5, by_turns(true))) ==
          -1);
  }
}

TEST_CASE("CPUs and GPUs in one job: replicas with factors of convolutions are equal") {
  const TinyJob tiny(kFactoredConvolutions);
  for (const char* wire : {"fp32", "bf16"}) {
    CAPTURE(wire);
    const Job job = tiny.load(words_of(3, {std::string("comm.wire=") + wire}));
    CHECK(first_difference(course_of(job, 20, by_turns(true))) == -1);
  }
}

TEST_CASE("CPUs and GPUs in one job: the GPU's bits differ from the CPU's") {
  const TinyJob tiny(kSmallResNet);
  const Job job = tiny.load(words_of(2, {}));
  const auto alike = [&](const MakeBackend& backend) {
    return course_of(job, 6, backend).worker_digests[0].back();
  };
  const auto by_cpus =
      alike([](size_t) { return layers::cpu::make_cpu_backend(1, DataType::kFp32); });
  const auto mixed = alike(by_turns(false));
  CHECK(by_cpus != mixed);
  CHECK(mixed == alike(by_turns(false)));
}

TEST_CASE("CPUs and GPUs in one job: a different rounding of an update is detected") {
  const TinyJob tiny;
  const Job job = tiny.load(words_of(2, {}));
  const MakeBackend right = by_turns(false);
  const Course course = course_of(job, 20, [&](size_t worker) {
    layers::Backend backend = right(worker);
    if (worker == 0)
      backend.updater = std::make_unique<RoundsOtherwise>(std::move(backend.updater));
    return backend;
  });
  // The first five steps have 25 updates, because there are five parameters.
  CHECK(first_difference(course) >= 5);
  CHECK(first_difference(course) < 20);
}
