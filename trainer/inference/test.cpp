#include "trainer/inference/test.h"

#include "core/error.h"
#include "trainer/inference/confusion.h"
#include "trainer/inference/trained_net.h"
#include "trainer/step/evaluation.h"

namespace poseidon::trainer {

Json test(const Job& job, const RunOptions& options, Console& console) {
  if (!job.config.data.has_test) throw ConfigError(job.file + ": /data: --test needs \"test\"");
  const PreparedData data = open_data(job, DataPart::kTest, console);
  const std::vector<std::string>& classes = data.dataset->classes();
  const std::vector<std::string> trained_classes = classes_of_run(options);
  if (!trained_classes.empty())
    refuse_other_classes({job.file, "/data/test"}, data.dataset->description().source,
                         trained_classes, classes);
  TrainedNet trained(job, options, console);
  Confusion confusion;
  const auto tested = [&](const data::Batch& batch) {
    confusion.add(trained.scores(), job.network->classes(),
                  batch.labels.first(static_cast<size_t>(batch.valid)));
  };
  const std::optional<TestResult> result = evaluate(
      trained.net(), data,
      {.seed = static_cast<uint64_t>(job.config.train.seed),
       .loader_threads = static_cast<int>(job.config.data.loader_threads),
       .on_error = job.config.data.test.on_error,
       .goes_on = [&](int64_t, int64_t) { return options.stop == nullptr || !*options.stop; },
       .tested = tested},
      console);
  if (!result) throw RunError("the test was stopped");
  Json json = confusion.json(classes);
  json.update({{"name", job.config.name},
               {"step", trained.step() ? Json(*trained.step()) : Json()},
               {"weights", trained.weights().string()},
               {"samples", result->samples},
               {"loss", result->loss},
               {"top1", result->top1},
               {"top5", result->top5},
               {"samples_per_second", static_cast<double>(result->samples) / result->seconds}});
  return json;
}

}  // namespace poseidon::trainer
