#include "trainer/inference/test.h"

#include "core/error.h"
#include "trainer/inference/confusion.h"
#include "trainer/inference/trained_net.h"
#include "trainer/report/run_classes.h"
#include "trainer/report/scalar_keys.h"

namespace poseidon::trainer {

Json test(const Job& job, const RunOptions& options, Console& console) {
  if (!job.config.data.has_test) throw ConfigError(job.file + ": /data: --test requires \"test\"");
  const PreparedData data = open_data(job, DataPart::kTest, console);
  const std::vector<std::string>& classes = data.dataset->classes();
  const std::vector<std::string> trained_classes = classes_of_run(options);
  if (!trained_classes.empty())
    refuse_other_classes({job.file, "/data/test"}, data.dataset->description().source,
                         trained_classes, classes);
  const net::Network& network = job.network->in_test();
  const std::string scores = score_layer(network);
  TrainedNet trained(job, options, {scores}, console);
  Confusion confusion;
  const auto tested = [&](const data::Batch& batch) {
    confusion.add(trained.net().output(scores), network.classes(),
                  batch.labels.first(static_cast<size_t>(batch.valid)));
  };
  const std::optional<TestResult> result =
      evaluate(trained.net(), data, test_options(job, options, console, tested), console);
  console.finish();
  if (!result) throw RunError("the test was stopped");
  Json json = confusion.json(classes);
  json.update({{"name", job.config.name},
               {"step", trained.step() ? Json(*trained.step()) : Json()},
               {"weights", trained.weights().string()},
               {"samples", result->samples},
               {"loss", result->mean.loss},
               {"samples_per_second", static_cast<double>(result->samples) / result->seconds}});
  const ScalarKeys keys(network.scalars());
  for (const auto& [key, value] : keys.named_values(result->mean)) json[key] = value;
  return json;
}

}  // namespace poseidon::trainer
