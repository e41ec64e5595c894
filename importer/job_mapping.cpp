#include "importer/job_mapping.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "importer/layer_mapping.h"

namespace poseidon::importer {

namespace {

const std::vector<std::string> kSolverWords{"SGD",     "NESTEROV", "ADAGRAD",
                                            "RMSPROP", "ADADELTA", "ADAM"};
constexpr std::array kSolverTypes{"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"};
constexpr std::array kRules{"sgd", "nesterov", "adagrad", "rmsprop", "adadelta", "adam"};

// ---- data

Json transform_of(const CaffeData& data, const JobSources& sources) {
  Json json = Json::object();
  if (data.resize[0] > 0) json["resize"] = Json{data.resize[0], data.resize[1]};
  if (data.crop > 0) json["crop"] = data.crop;
  if (data.mirror) json["mirror"] = true;
  std::vector<double> means = data.means;
  if (sources.bgr_to_rgb) std::ranges::reverse(means);
  if (means.size() == 1) json["mean"] = plain_number(means[0]);
  if (means.size() > 1) json["mean"] = plain_numbers(means);
  if (means.empty() && !data.mean_file.empty() && !sources.mean_image.empty())
    json["mean_image"] = sources.mean_image;
  if (data.scale != 1) json["scale"] = plain_number(data.scale);
  return json;
}

void remark_source(const CaffeData& data, const char* path, Remarks& remarks) {
  const std::string what = data.source.empty() ? "its samples" : "\"" + data.source + "\"";
  remarks.note(data.layer->place(), text(data.layer->shown(), ": job.json expects ", what,
                                         " as a record set in ", path));
}

Json dataset_of(const CaffeData& data, const char* path, const JobSources& sources,
                Remarks& remarks) {
  remark_source(data, path, remarks);
  Json json{{"type", "records"}, {"path", path}};
  if (Json transform = transform_of(data, sources); !transform.empty())
    json["transform"] = std::move(transform);
  return json;
}

/// Returns the test set. Without a "transform", a test set uses the transform of the training set.
/// So a "transform" is written only if the two differ. "mirror" is not compared, because tests
/// never mirror.
Json test_set_of(const JobSources& sources, const Json& train, Remarks& remarks) {
  Json json = dataset_of(*sources.test, kTestData, sources, remarks);
  Json of_training = train.value("transform", Json::object());
  of_training.erase("mirror");
  if (json.contains("transform")) json["transform"].erase("mirror");
  const bool as_they_are = !json.contains("transform");
  if (as_they_are) json["transform"] = Json::object();
  if (json["transform"] == of_training)
    json.erase("transform");
  else if (as_they_are)
    remarks.warn(sources.test->layer->place(),
                 sources.test->layer->shown() +
                     " has no \"transform_param\", so Caffe does not transform test samples: the "
                     "\"transform\" of data.test in job.json is empty");
  return json;
}

/// Returns the number of samples per step: Caffe processes `iter_size` batches per step. Without a
/// data layer, a batch has one sample.
int64_t batch_of(const JobSources& sources, int64_t iter_size) {
  const int64_t batch = sources.train ? std::max<int64_t>(sources.train->batch, 1) : 1;
  int64_t product = 0;
  if (__builtin_mul_overflow(batch, iter_size, &product))
    fail_at(sources.solver->place_of("iter_size"), "the batch is too large");
  return product;
}

Json data_of(const JobSources& sources, int64_t iter_size, Remarks& remarks) {
  Json json;
  if (sources.train) {
    json["train"] = dataset_of(*sources.train, kTrainData, sources, remarks);
  } else {
    json["train"] = {{"type", "records"}, {"path", kTrainData}};
    remarks.warn(sources.solver->place(),
                 text("the network has no data layer: job.json expects a record set in ",
                      kTrainData, ", and uses a batch of ", iter_size));
  }
  if (sources.test) json["test"] = test_set_of(sources, json["train"], remarks);
  json["batch_per_worker"] = batch_of(sources, iter_size);
  return json;
}

// ---- solver

double required_number(const MessageReader& solver, std::string_view field, const char* what) {
  const auto value = solver.number(field);
  if (!value) fail_at(solver.place(), text("a solver needs a \"", field, "\", ", what));
  return *value;
}

Json schedule_of(const MessageReader& solver, Remarks& remarks) {
  const std::string policy = solver.text("lr_policy").value_or("");
  Json json{{"type", policy}};
  const auto put = [&](const char* key, const char* field) {
    json[key] = plain_number(required_number(solver, field, "required by its \"lr_policy\""));
  };
  const auto is_one_of = [&](std::initializer_list<const char*> policies) {
    return std::ranges::find(policies, policy) != policies.end();
  };
  if (!is_one_of({"fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid"})) {
    remarks.warn(solver.place_of("lr_policy"),
                 text("expected an \"lr_policy\" of fixed, step, exp, inv, multistep, poly or "
                      "sigmoid, got \"",
                      policy, "\": job.json uses \"fixed\""));
    json["type"] = "fixed";
  }
  if (is_one_of({"step", "exp", "inv", "multistep", "sigmoid"})) put("gamma", "gamma");
  if (is_one_of({"inv", "poly"})) put("power", "power");
  if (is_one_of({"step", "sigmoid"})) put("step_size", "stepsize");
  if (policy == "multistep") json["milestones"] = solver.integers("stepvalue", kExtent);
  solver.mark_as_read({"gamma", "power", "stepsize", "stepvalue"});
  return json;
}

/// Returns the index of the rule in kRules, from "type" (a text) or the older "solver_type" (a
/// word).
size_t rule_of(const MessageReader& solver) {
  const auto word = solver.word("solver_type", kSolverWords);
  const auto type = solver.text("type");
  if (word && type)
    fail_at(solver.place_of("solver_type"), "\"type\" and \"solver_type\" exclude each other");
  if (word)
    return static_cast<size_t>(std::ranges::find(kSolverWords, *word) - kSolverWords.begin());
  if (!type) return 0;
  const auto found = std::ranges::find(kSolverTypes, *type);
  if (found == kSolverTypes.end())
    fail_at(solver.place_of("type"),
            "expected a solver of SGD, Nesterov, AdaGrad, RMSProp, AdaDelta or Adam, got \"" +
                *type + "\"");
  return static_cast<size_t>(found - kSolverTypes.begin());
}

/// Writes the keys of the update rule. The meaning of Caffe's "momentum" depends on the rule.
void put_rule(Json& json, const MessageReader& solver) {
  const std::string rule = kRules[rule_of(solver)];
  const double momentum = solver.number("momentum").value_or(0);
  const double delta = solver.number("delta").value_or(1e-8);
  const double second = solver.number("momentum2").value_or(0.999);
  const double smoothing = solver.number("rms_decay").value_or(0.99);
  json["type"] = rule;
  if (rule == "sgd" || rule == "nesterov") json["momentum"] = plain_number(momentum);
  if (rule == "rmsprop") json["smoothing"] = plain_number(smoothing);
  if (rule == "adadelta") json["smoothing"] = plain_number(momentum);
  if (rule == "adam") {
    json["beta1"] = plain_number(momentum);
    json["beta2"] = plain_number(second);
  }
  if (rule != "sgd" && rule != "nesterov") json["epsilon"] = plain_number(delta);
}

void put_decay(Json& json, const MessageReader& solver) {
  const double decay = solver.number("weight_decay").value_or(0);
  const std::string kind = solver.text("regularization_type").value_or("L2");
  if (kind != "L1" && kind != "L2")
    fail_at(solver.place_of("regularization_type"),
            "expected \"L1\" or \"L2\", got \"" + kind + "\"");
  if (decay != 0) json[kind == "L1" ? "l1_decay" : "weight_decay"] = plain_number(decay);
}

/// Returns the optimizer of the job. Caffe clips the sum over iter_size batches, but Poseidon clips
/// the mean over all samples. Therefore the limit is divided by iter_size.
Json optimizer_of(const MessageReader& solver, int64_t iter_size, Remarks& remarks) {
  Json json = Json::object();
  put_rule(json, solver);
  json["learning_rate"] = plain_number(required_number(solver, "base_lr", "the learning rate"));
  put_decay(json, solver);
  const double clip = solver.number("clip_gradients").value_or(-1);
  if (clip > 0) json["clip_norm"] = plain_number(clip / static_cast<double>(iter_size));
  json["schedule"] = schedule_of(solver, remarks);
  return json;
}

Json train_of(const MessageReader& solver, bool tests) {
  const auto steps = solver.integer("max_iter", {.least = 1});
  if (!steps) fail_at(solver.place(), "a solver needs a \"max_iter\", the number of steps");
  Json json{{"steps", *steps}};
  const auto put = [&](const char* key, const char* field) {
    if (const auto value = solver.integer(field, {.least = 0}); value && *value > 0)
      json[key] = *value;
  };
  if (const auto seed = solver.integer("random_seed"); seed && *seed >= 0) json["seed"] = *seed;
  if (tests) put("test_every", "test_interval");
  put("checkpoint_every", "snapshot");
  put("log_every", "display");
  return json;
}

void remark_solver(const MessageReader& solver, bool tests, Remarks& remarks) {
  if (solver.has("test_iter"))
    remarks.note(solver.place_of("test_iter"),
                 "\"test_iter\" is ignored: each test reads the whole test set");
  if (solver.has("test_interval") && !tests)
    remarks.warn(solver.place_of("test_interval"),
                 "the network has no test data: job.json contains no tests");
  for (const char* field : {"train_state", "test_state"})
    if (solver.has(field))
      remarks.warn(solver.place_of(field),
                   text("\"", field,
                        "\" is ignored: levels and stages are read from the network file only"));
  if (solver.word("solver_mode", {"CPU", "GPU"}) == "GPU")
    remarks.note(solver.place_of("solver_mode"),
                 "\"solver_mode\" is ignored: choose the device with --device");
  solver.mark_as_read({"net", "train_net", "test_net", "test_iter", "test_interval", "train_state",
                       "test_state", "test_initialization", "test_compute_loss", "average_loss",
                       "snapshot_prefix", "snapshot_diff", "snapshot_format",
                       "snapshot_after_train", "device_id", "debug_info", "layer_wise_reduce"});
}

/// Writes placeholders for the settings that a solver would state.
void put_placeholders(Json& json, const JobSources& sources, Remarks& remarks) {
  json["optimizer"] = {{"learning_rate", 0.01}};
  json["train"] = {{"epochs", 1}};
  remarks.warn(sources.train->layer->place(),
               "no --solver: job.json has a learning rate of 0.01 and 1 epoch; replace both");
}

}  // namespace

Json map_job(const JobSources& sources, Remarks& remarks) {
  int64_t iter_size = 1;
  if (sources.solver)
    iter_size = sources.solver->integer("iter_size", {.least = 1, .most = 1 << 20}).value_or(1);
  Json json{{"name", sources.network_name}, {"network", "network.json"}};
  json["data"] = data_of(sources, iter_size, remarks);
  if (sources.solver) {
    const bool tests = sources.test.has_value();
    json["optimizer"] = optimizer_of(*sources.solver, iter_size, remarks);
    json["train"] = train_of(*sources.solver, tests);
    remark_solver(*sources.solver, tests, remarks);
  } else {
    put_placeholders(json, sources, remarks);
  }
  if (iter_size > 1) json["cluster"] = {{"logical_shards", iter_size}};
  return json;
}

Place place_of_key(const MessageReader& solver, const std::string& pointer) {
  static constexpr std::array<std::array<std::string_view, 2>, 16> kKeys{{
      {"/optimizer/learning_rate", "base_lr"},
      {"/optimizer/momentum", "momentum"},
      {"/optimizer/beta1", "momentum"},
      {"/optimizer/beta2", "momentum2"},
      {"/optimizer/epsilon", "delta"},
      {"/optimizer/weight_decay", "weight_decay"},
      {"/optimizer/l1_decay", "weight_decay"},
      {"/optimizer/schedule/gamma", "gamma"},
      {"/optimizer/schedule/power", "power"},
      {"/optimizer/schedule/step_size", "stepsize"},
      {"/optimizer/schedule/milestones", "stepvalue"},
      {"/train/steps", "max_iter"},
      {"/train/seed", "random_seed"},
      {"/train/test_every", "test_interval"},
      {"/train/checkpoint_every", "snapshot"},
      {"/train/log_every", "display"},
  }};
  for (const auto& [key, field] : kKeys)
    if (pointer.starts_with(key)) return solver.place_of(field);
  return solver.place();
}

}  // namespace poseidon::importer
