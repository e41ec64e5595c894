#include "trainer/report/run_classes.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/fields.h"
#include "core/json.h"
#include "trainer/report/run_directory.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

std::string class_text(const std::vector<std::string>& classes, size_t label, const char* when) {
  return label < classes.size() ? shown(classes[label]) + " " + when : text("no class ", when);
}

}  // namespace

std::vector<std::string> classes_of_run(const RunOptions& options) {
  const fs::path run = run_directory_of(options.resume.empty() ? options.weights : options.resume);
  const fs::path file = run / kClassesFile;
  std::vector<std::string> names;
  if (run.empty() || !fs::exists(file)) return names;
  read_fields(read_json(file), {file.string(), ""}, [&](Fields& fields) {
    fields.texts("classes", names, "names, in order of their labels", Presence::kRequired);
  });
  return names;
}

std::string class_difference(const std::vector<std::string>& run,
                             const std::vector<std::string>& now) {
  if (run == now) return "";
  const auto label = static_cast<size_t>(std::ranges::mismatch(run, now).in1 - run.begin());
  return text("label ", label, " is ", class_text(run, label, "in the run"), " and ",
              class_text(now, label, "now"));
}

void check_classes_of_run(const RunOptions& options, const std::vector<std::string>& now,
                          bool all_fit, Log& log) {
  const std::vector<std::string> run = classes_of_run(options);
  const std::string difference = class_difference(run, now);
  if (run.empty() || now.empty() || difference.empty()) return;
  if (!options.resume.empty())
    throw ConfigError(text("--resume ", options.resume.string(), ": ", difference,
                           "; expected the classes of the run (to train for other classes, begin "
                           "another run with --weights)"));
  const std::string named = "--weights " + options.weights.string();
  if (all_fit)
    throw ConfigError(text(named, ": ", difference,
                           ", and the output layer fits, so its outputs would mean other classes; "
                           "rename that layer in the network file to train it from initial "
                           "values"));
  log.info(
      text(named, ": ", difference, "; layers that do not fit are trained from initial values"));
}

}  // namespace poseidon::trainer
