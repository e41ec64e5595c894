#include "trainer/job/job.h"

#include <algorithm>

#include "core/as_config_error.h"
#include "core/config_file.h"
#include "core/error.h"
#include "core/name_list.h"
#include "core/printable.h"
#include "data/auxiliary_values.h"
#include "trainer/job/file_kinds.h"
#include "trainer/job/known_data.h"
#include "trainer/job/overrides.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

/// Replaces variables, makes paths absolute, and checks that they exist.
class PathResolver {
 public:
  PathResolver(const JobSource& source, Log& log)
      : source_(source), folder_(fs::absolute(source.file).parent_path()), log_(log) {}

  /// `pointer` is the position in the job file.
  void resolve(std::string& path, const char* pointer) const {
    if (path.empty()) return;
    const JsonPath place{source_.file.string(), pointer};
    try {
      path = (folder_ / data::expand_variables(path, source_.lookup)).lexically_normal().string();
    } catch (const ConfigError& error) {
      complain(place, error.what());
      return;
    }
    if (!fs::exists(path)) complain(place, "\"" + path + "\" does not exist");
  }

 private:
  void complain(const JsonPath& place, const std::string& message) const {
    if (!source_.data_may_be_missing) fail_at(place, message);
    log_.warning(text(place.file, ": ", place.pointer, ": ", message));
  }

  const JobSource& source_;
  fs::path folder_;
  Log& log_;
};

void resolve_paths(JobConfig& config, const JobSource& source, Log& log) {
  const PathResolver resolver(source, log);
  if (!source.data_is_elsewhere) {
    resolver.resolve(config.data.train.path, "/data/train/path");
    resolver.resolve(config.data.train.transform.mean_image, "/data/train/transform/mean_image");
  }
  if (config.data.has_test && !source.data_is_elsewhere) {
    resolver.resolve(config.data.test.path, "/data/test/path");
    resolver.resolve(config.data.test.transform.mean_image, "/data/test/transform/mean_image");
  }
  resolver.resolve(config.device.choices, "/device/choices");
  resolver.resolve(config.device.times, "/device/times");
  resolver.resolve(config.comm.plan, "/comm/plan");
}

/// The path of the network file, with variables replaced. Throws ConfigError if the file does not
/// exist, even if data may be missing.
fs::path network_path(const JobConfig& config, const JobSource& source) {
  const JsonPath place{source.file.string(), "/network"};
  fs::path path;
  try {
    path = source.file.parent_path() / data::expand_variables(config.network, source.lookup);
  } catch (const ConfigError& error) {
    fail_at(place, error.what());
  }
  if (!fs::exists(path))
    fail_at(place, "the network file \"" + path.string() + "\" does not exist");
  return path;
}

}  // namespace

net::LabelForm label_form(const JobConfig& config) {
  return config.data.train.transform.mix.present ? net::LabelForm::kMixed : net::LabelForm::kPlain;
}

namespace {

/// Reads the file as JSON. Throws ConfigError if it is not a job file.
Json read_job_file(const JobSource& source) {
  if (const std::string advice = advice_on_job(source.file); !advice.empty())
    throw ConfigError(source.file.string() + ": " + advice);
  Json json = read_config(source.file);
  if (json.is_object() && json.contains("layers") && !json.contains("network"))
    throw ConfigError(source.file.string() +
                      ": is a network file, expected a job file with its path in \"network\" "
                      "(docs/config.md)");
  return json;
}

void refuse_without_loss(const Job& job, const std::string& network_file) {
  if (!job.network->has_loss())
    throw ConfigError(network_file +
                      ": /layers: a network that is trained needs a loss, such as softmax_loss");
  if (job.config.data.has_test && !job.network->in_test().has_loss())
    throw ConfigError(network_file +
                      ": /layers: a network that is tested needs a loss in phase \"test\" too");
}

/// Creates the job, without its network, from the file's content with the overrides applied.
Job job_of(const Json& json, const JobSource& source, Log& log) {
  Job job{.file = source.file.string(), .config = {}, .network = nullptr};
  job.config = read_job_config(json, job.file, source.use);
  if (job.config.name.empty()) job.config.name = source.file.stem().string();
  if (source.use == JobUse::kRun) refuse_unsupported(job.config, job.file);
  Schedule(job.config.optimizer.schedule, 1, 1, 1, job.file + ": /optimizer/schedule");
  resolve_paths(job.config, source, log);
  return job;
}

}  // namespace

Job load_job(const JobSource& source, Log& log) {
  Json json = read_job_file(source);
  for (const std::string& key : apply_overrides(json, source.overrides, fs::current_path()))
    log.info("--set changes the type, so " + key + " of " + source.file.string() + " is ignored");
  Job job;
  fs::path network_file;
  try {
    job = job_of(json, source, log);
    network_file = network_path(job.config, source);
  } catch (const JsonPathError& error) {
    refuse_override(error, source.overrides);
    throw;
  }
  job.network = std::make_unique<net::Network>(
      network_file, std::max<int64_t>(1, job.config.shard_batch()), label_form(job.config));
  job.config.network = fs::absolute(network_file).lexically_normal().string();
  refuse_without_loss(job, network_file.string());
  const std::string& times = job.config.device.times;
  if (job.config.device.type == kReplayDevice && fs::exists(times))
    set_times(job, read_json(times), times);
  return job;
}

void set_times(Job& job, const Json& json, const std::string& file) {
  job.times = read_layer_times(json, file);
  for (const net::Node& node : job.network->nodes()) {
    if (node.parameters().empty()) continue;
    const auto timed = [&](const LayerTimes::Layer& layer) {
      return layer.name == node.definition->name;
    };
    if (std::ranges::none_of(job.times->layers, timed))
      fail_at({file, "/layers"}, "the layer \"" + node.definition->name +
                                     "\" is missing; expected the times of this network");
  }
}

namespace {

/// Throws ConfigError if the data have more classes than the network, warns if they have fewer. A
/// network without classes accepts any data.
void check_classes(const net::Network& network, const data::DatasetDescription& data,
                   const JsonPath& place, Log& log) {
  const auto classes = static_cast<int64_t>(data.classes.size());
  if (network.classes() == 0) return;
  if (classes > network.classes())
    fail_at(place, text(data.source, " has ", classes, " classes (", name_list(data.classes),
                        "), but network \"", network.name(), "\" has only ", network.classes()));
  if (classes < network.classes())
    log.warning(text(place.file, ": ", place.pointer, ": ", data.source, " has ", classes,
                     " classes (", name_list(data.classes), "), but network \"", network.name(),
                     "\" has ", network.classes()));
}

/// Checks that the data contain the network's auxiliary inputs, and that the job's transform
/// supports them.
void check_inputs(const net::Network& network, const data::DatasetDescription& data,
                  const data::MixConfig* mix, const JsonPath& place) {
  try {
    const data::AuxiliaryValues extras(data, network.extras());
  } catch (const ConfigError& error) {
    fail_at(place, text(error.what(), " (", network.file(), ": /inputs)"));
  }
  if (!network.extras().empty() && mix != nullptr && mix->cutmix > 0)
    fail_at(place.at("transform").at("mix").at("cutmix"),
            text("expected 0, because CutMix cannot cut the auxiliary inputs of network \"",
                 network.name(), "\" (mixup can mix them), got ", mix->cutmix));
}

/// Transforms the first sample. A transform that rejects the first sample usually rejects all
/// samples. A damaged sample is not an error of the job.
void check_first_sample(const PreparedData& data, const JsonPath& place) {
  std::vector<float> pixels(static_cast<size_t>(data.transform->output().count()));
  const auto scratch = data::make_transform_scratch();
  data::Sample sample;
  try {
    data.dataset->read(0, sample);
    data.transform->apply(
        sample, {}, [&] { return data.dataset->name(0); }, pixels, *scratch);
  } catch (const data::CorruptSample&) {
  } catch (const ConfigError& error) {
    fail_at(place, error.what());
  }
}

}  // namespace

PreparedData open_data(const Job& job, DataPart part, Log& log) {
  const bool train = part == DataPart::kTrain;
  data::DatasetConfig config = train ? job.config.data.train : job.config.data.test;
  if (!train && !config.has_transform) config.transform = job.config.data.train.transform;
  const JsonPath place{job.file, train ? "/data/train" : "/data/test"};
  PreparedData prepared;
  prepared.dataset = as_config_error([&] { return data::open_dataset(config); });
  const data::DatasetDescription& known = prepared.dataset->description();
  check_classes(*job.network, known, place, log);
  for (const std::string& remark : known.remarks)
    log.warning(text(place.file, ": ", place.pointer, ": ", known.source, ": ", remark));
  const Shape& input = job.network->input();
  try {
    prepared.transform = as_config_error([&] {
      return std::make_unique<data::Transform>(
          config.transform, Shape{input.channels(), input.height(), input.width()},
          train ? data::Phase::kTrain : data::Phase::kTest,
          static_cast<uint64_t>(job.config.train.seed), known.shape);
    });
  } catch (const ConfigError& error) {
    fail_at(place, text("for the input ", input.channels(), "x", input.height(), "x", input.width(),
                        " of network \"", job.network->name(), "\": ", error.what()));
  }
  check_inputs(*job.network, known, prepared.transform->mix(), place);
  check_first_sample(prepared, place);
  return prepared;
}

namespace {

std::string class_text(const std::vector<std::string>& classes, size_t label) {
  return label < classes.size() ? "\"" + classes[label] + "\"" : "no class";
}

}  // namespace

void refuse_other_classes(const JsonPath& place, const std::string& source,
                          const std::vector<std::string>& expected,
                          const std::vector<std::string>& got) {
  if (expected == got) return;
  const auto first = std::ranges::mismatch(expected, got).in1 - expected.begin();
  const auto label = static_cast<size_t>(first);
  const bool alike = label < std::min(expected.size(), got.size()) &&
                     differ_in_normalization(expected[label], got[label]);
  constexpr const char* kNormalization = ", which differs only in Unicode normalization";
  fail_at(place, text(source, ": expected the ", expected.size(),
                      " classes of the training set, got ", got.size(), " classes; label ", label,
                      " is ", class_text(expected, label), " in the training set and ",
                      class_text(got, label), " here", alike ? kNormalization : "",
                      " (--classes-from packs a set with another set's labels)"));
}

PreparedData open_test_data(const Job& job, const PreparedData& train, Log& log) {
  if (!job.config.data.has_test) return {};
  PreparedData test = open_data(job, DataPart::kTest, log);
  refuse_other_classes({job.file, "/data/test"}, test.dataset->description().source,
                       train.dataset->classes(), test.dataset->classes());
  return test;
}

KnownData known_data(const PreparedData& train, const PreparedData& test) {
  KnownData known;
  const auto add = [&known](const PreparedData& data, auto& description) {
    if (data.dataset == nullptr) return;
    description = data.dataset->description();
    known.bytes += data.dataset->memory_bytes();
  };
  add(train, known.train);
  add(test, known.test);
  return known;
}

KnownData inspect_data(const Job& job, Log& log) {
  const data::DatasetConfig& train = job.config.data.train;
  const data::DatasetConfig& test = job.config.data.test;
  const auto there = [](const std::string& path) { return path.empty() || fs::exists(path); };
  const bool prepared = there(train.transform.mean_image);
  const bool test_there =
      job.config.data.has_test && there(test.path) && there(test.transform.mean_image);
  if (!prepared) return {};
  PreparedData trained, tested;
  if (there(train.path)) trained = open_data(job, DataPart::kTrain, log);
  if (test_there)
    tested = trained.dataset != nullptr ? open_test_data(job, trained, log)
                                        : open_data(job, DataPart::kTest, log);
  return known_data(trained, tested);
}

}  // namespace poseidon::trainer
