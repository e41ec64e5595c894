#include "trainer/resume.h"

#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// Differences between the job that a checkpoint was made by and this one that change results.
std::string changes(const Json& before, const Json& now) {
  std::string out;
  for (const Json& change : Json::diff(before, now)) {
    const auto path = change["path"].get<std::string>();
    if (path.starts_with("/train/") && path.ends_with("_every")) continue;
    out += (out.empty() ? "" : ", ") + path;
  }
  return out;
}

}  // namespace

void refuse_other_batch(const RunState& state, const Job& job, const std::filesystem::path& named) {
  const int64_t batch = job.config.global_batch();
  if (state.samples == state.step * batch) return;
  throw ConfigError(text(named.string(), ": ", state.samples, " samples were used in ", state.step,
                         " steps, but this job has batches of ", batch,
                         ": expected the batch of the checkpoint"));
}

void warn_of_changes(const RunState& state, const Job& job, Log& log) {
  const std::string changed = changes(state.config, job.decisive_part());
  if (!changed.empty())
    log.warning(
        "the job was changed since the checkpoint, so the result is not that of an unbroken run: " +
        changed);
}

void warn_of_other_data(const RunState& state, const std::string& dataset, Log& log) {
  if (state.dataset != dataset)
    log.warning("the training set is not the one that the checkpoint was made with");
}

}  // namespace poseidon::trainer
