#include "trainer/measure/timing.h"

#include "core/philox.h"

namespace poseidon::trainer {

namespace {

void fill_input(net::Net& net) {
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> values(static_cast<size_t>(net.input_shape().count()));
  for (float& value : values) value = random.next_uniform(-1, 1);
  net.set_input(values);
}

}  // namespace

std::vector<net::Timing> time_on_random_values(const Job& job, net::Net& net, int repeats) {
  net.values().initialize(static_cast<uint64_t>(job.config.train.seed));
  fill_input(net);
  const std::vector<int32_t> labels(static_cast<size_t>(job.config.shard_batch()), 0);
  const layers::StepContext context{
      .phase = layers::Phase::kTrain,
      .seed = 1,
      .step = 0,
      .first_sample = 0,
      .labels = labels,
      .loss_scale = 1 / static_cast<float>(job.config.global_batch())};
  net.diagnosis().time(context, 2);  // warm: memory touched, code made
  return net.diagnosis().time(context, repeats);
}

}  // namespace poseidon::trainer
