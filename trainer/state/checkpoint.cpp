#include "trainer/state/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "comm/plan/plan.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/file.h"
#include "trainer/state/safetensors.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "PSDNSTAT";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kPrefix = 16;   ///< bytes of magic, version and length of the JSON
constexpr uint64_t kTrailer = 12;  ///< bytes of the length of the file and the checksum
constexpr uint32_t kMostJson = 16 << 20;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T read_value(const InputFile& file, uint64_t offset) {
  T value{};
  file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::string name_of(int64_t step) { return "step-" + std::to_string(step); }

/// Returns 12 for ".../step-12.state" and ".../step-12.safetensors".
std::optional<int64_t> step_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  int64_t step = 0;
  if (!stem.starts_with("step-")) return std::nullopt;
  const char* end = stem.data() + stem.size();
  const auto [at, failure] = std::from_chars(stem.data() + 5, end, step);
  return failure == std::errc() && at == end && step >= 0 ? std::optional(step) : std::nullopt;
}

using Tensors = std::span<const NamedTensor* const>;

void write_state(AtomicFile& file, const RunState& state, const AtomicFile& weights,
                 Tensors tensors) {
  RunState copy = state;
  Json header = write_fields([&](Fields& fields) { copy.describe(fields); });
  if (state.in_flight == 0) header.erase("sums_in_flight");
  header["weights"] = {{"file", weights.path().filename().string()},
                       {"bytes", weights.bytes()},
                       {"crc32c", weights.crc()}};
  header["tensors"] = Json::array();
  for (const NamedTensor* tensor : tensors)
    header["tensors"].push_back({{"name", tensor->name}, {"shape", tensor->shape.extents()}});
  const std::string json = header.dump();

  file.write(kMagic);
  file.write(bytes_of(kVersion));
  file.write(bytes_of(static_cast<uint32_t>(json.size())));
  file.write(json);
  std::vector<float> values;
  for (const NamedTensor* tensor : tensors) {
    values.resize(tensor->count());
    tensor->read(values);
    file.write(std::as_bytes(std::span(values)));
  }
  file.write(bytes_of(file.bytes() + kTrailer));
  file.write(bytes_of(file.crc()));
}

uint64_t bytes_of_values(Tensors tensors) {
  uint64_t bytes = 0;
  for (const NamedTensor* tensor : tensors) bytes += tensor->count() * sizeof(float);
  return bytes;
}

/// Reads `tensors` back from the file, one after another from `offset`. Throws RunError if a digest
/// differs.
void expect_digests(const AtomicFile& file, uint64_t offset, Tensors tensors,
                    std::span<const int64_t> digests) {
  const InputFile written(file.temporary());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = tensors[i]->count() * sizeof(float);
    const uint32_t crc = written.crc(offset, bytes);
    if (crc != digests[i])
      throw RunError(text(file.path().string(), ": the values of \"", tensors[i]->name,
                          "\" read back differ from those written: expected checksum ", digests[i],
                          ", got ", crc));
    offset += bytes;
  }
}

/// Throws RunError unless the digests of the tensors to write equal those on which the workers
/// agreed.
void expect_agreed(int64_t step, Tensors tensors, const std::vector<int64_t>& digests,
                   const std::vector<int64_t>& agreed) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (i >= agreed.size() || agreed[i] != digests[i])
      throw RunError(
          text("step ", step, ": \"", tensors[i]->name,
               "\" in the checkpoint differs from the value that the workers agreed on"));
}

}  // namespace

void RunState::describe(Fields& fields) {
  fields.integer("step", step, at_least(0), "", Presence::kRequired);
  fields.integer("samples", samples, at_least(0), "", Presence::kRequired);
  fields.number("learning_rate", learning_rate, {}, "");
  fields.text("config_hash", config_hash, "", Presence::kRequired);
  fields.raw("config", config, "", Presence::kRequired);
  fields.raw("choices", choices, "", Presence::kRequired);
  fields.raw("plan", plan, "");
  fields.text("dataset", dataset, "", Presence::kRequired);
  fields.integer("sums_in_flight", in_flight, between(0, comm::kMaxStaleness), "");
}

namespace {

std::vector<int64_t> digests_of(const std::vector<const NamedTensor*>& tensors) {
  std::vector<int64_t> digests;
  std::vector<float> values;
  for (const NamedTensor* tensor : tensors) {
    values.resize(tensor->count());
    tensor->read(values);
    digests.push_back(crc32c(std::as_bytes(std::span(values))));
  }
  return digests;
}

}  // namespace

std::vector<const NamedTensor*> in_order(const RunTensors& tensors, int64_t in_flight) {
  std::vector<const NamedTensor*> all;
  const auto add = [&](const std::vector<NamedTensor>& some) {
    for (const NamedTensor& tensor : some) all.push_back(&tensor);
  };
  add(tensors.weights);
  add(tensors.optimizer);
  for (size_t step = 0; step < static_cast<size_t>(in_flight); ++step) add(tensors.sums[step]);
  return all;
}

std::vector<int64_t> tensor_digests(const RunTensors& tensors, int64_t in_flight) {
  return digests_of(in_order(tensors, in_flight));
}

std::vector<int64_t> rotating_tensor_digests(const RunTensors& tensors, int64_t turn,
                                             int64_t turns) {
  const std::vector<const NamedTensor*> all = in_order(tensors, 0);
  std::vector<const NamedTensor*> due;
  for (auto i = static_cast<size_t>(turn); i < all.size(); i += static_cast<size_t>(turns))
    due.push_back(all[i]);
  return digests_of(due);
}

fs::path write_checkpoint(const fs::path& folder, const RunState& state, const RunTensors& tensors,
                          const WritingRules& rules) {
  const std::vector<const NamedTensor*> all = in_order(tensors, state.in_flight);
  const Tensors in_weights = Tensors(all).first(tensors.weights.size());
  const Tensors in_state = Tensors(all).subspan(tensors.weights.size());
  const std::vector<int64_t> digests = tensor_digests(tensors, state.in_flight);
  if (rules.agreed != nullptr) expect_agreed(state.step, all, digests, *rules.agreed);

  rules.may_write();
  AtomicFile weights(folder / (name_of(state.step) + ".safetensors"));
  write_safetensors(weights, tensors.weights,
                    {{"format", "pt"},
                     {"producer", "poseidon"},
                     {"step", std::to_string(state.step)},
                     {"parameters", std::to_string(tensors.parameters)}});
  AtomicFile rest(folder / (name_of(state.step) + ".state"));
  write_state(rest, state, weights, in_state);
  weights.sync();
  rest.sync();
  expect_digests(weights, weights.bytes() - bytes_of_values(in_weights), in_weights, digests);
  expect_digests(rest, rest.bytes() - kTrailer - bytes_of_values(in_state), in_state,
                 std::span(digests).subspan(in_weights.size()));

  rules.may_write();
  // Remove an old state file first: after a crash between the two commits, it would not match the
  // new weights.
  std::error_code ignored;
  fs::remove(rest.path(), ignored);
  weights.commit();
  try {
    rest.commit();
  } catch (...) {
    fs::remove(weights.path(), ignored);
    throw;
  }
  return weights.path();
}

Checkpoint::Checkpoint(const fs::path& state_file) : file_(state_file) {
  const Json header = read_header();
  try {
    read_fields(header, {state_file.string(), ""}, [&](Fields& fields) {
      state_.describe(fields);
      Json others;
      fields.raw("weights", others, "", Presence::kRequired);
      fields.raw("tensors", others, "", Presence::kRequired);
    });
    if (state_.in_flight > state_.step)
      fail(text("carries the sums of ", state_.in_flight, " steps, expected at most ", state_.step,
                ", the steps done"));
    read_entries(header);
    check_weights(header);
  } catch (const ConfigError& error) {
    throw RunError(error.what());
  }
}

void Checkpoint::fail(const std::string& message) const {
  throw RunError(file_.path().string() + ": " + message);
}

Json Checkpoint::read_header() {
  const uint64_t size = file_.size();
  if (size < kPrefix + kTrailer)
    fail(text("is truncated: expected at least ", kPrefix + kTrailer, " bytes, got ", size));
  std::string magic(kMagic.size(), ' ');
  file_.read(0, std::as_writable_bytes(std::span(magic)));
  if (magic != kMagic) fail("is not a state file: it does not begin with PSDNSTAT");
  const auto version = read_value<uint32_t>(file_, 8);
  if (version != kVersion)
    fail(text("has version ", version, ", this build reads version ", kVersion));
  const auto length = read_value<uint64_t>(file_, size - kTrailer);
  if (length != size)
    fail(text("is truncated or corrupt: expected ", length, " bytes, got ", size));
  const auto expected = read_value<uint32_t>(file_, size - sizeof(uint32_t));
  const uint32_t crc = file_.crc(0, size - sizeof(uint32_t));
  if (crc != expected) fail(text("is corrupt: expected checksum ", expected, ", got ", crc));
  const auto json_bytes = read_value<uint32_t>(file_, 12);
  if (json_bytes > kMostJson || json_bytes > size - kPrefix - kTrailer)
    fail(text("has a header of ", json_bytes, " bytes, which is too large"));
  std::string json(json_bytes, ' ');
  file_.read(kPrefix, std::as_writable_bytes(std::span(json)));
  data_begin_ = kPrefix + json_bytes;
  try {
    return parse_json(json, file_.path().string());
  } catch (const ConfigError& error) {
    throw RunError(error.what());
  }
}

void Checkpoint::read_entries(const Json& header) {
  const JsonPath place{file_.path().string(), "/tensors"};
  const Json& tensors = header["tensors"];
  if (!tensors.is_array()) fail_at(place, "expected a list, got " + shown(tensors));
  uint64_t offset = data_begin_;
  const uint64_t end = file_.size() - kTrailer;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Entry entry{.name = "", .shape = {}, .offset = offset};
    read_fields(tensors[i], place.at(i), [&](Fields& fields) {
      fields.text("name", entry.name, "", Presence::kRequired);
      fields.integers("shape", entry.shape, between(0, 1e12), "", Presence::kRequired);
    });
    uint64_t bytes = sizeof(float);
    for (int64_t extent : entry.shape)
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
        fail_at(place.at(i), "expected a shape of fewer than 2^64 bytes");
    if (bytes > end - offset) fail_at(place.at(i), "expected a tensor that fits into the file");
    offset += bytes;
    entries_.push_back(std::move(entry));
  }
  if (offset != end)
    fail(text("has ", end - data_begin_, " bytes of values, expected ", offset - data_begin_));
}

void Checkpoint::check_weights(const Json& header) const {
  std::string name;
  int64_t bytes = 0, crc = 0;
  read_fields(header["weights"], {file_.path().string(), "/weights"}, [&](Fields& fields) {
    fields.text("file", name, "", Presence::kRequired);
    fields.integer("bytes", bytes, at_least(0), "", Presence::kRequired);
    fields.integer("crc32c", crc, between(0, UINT32_MAX), "", Presence::kRequired);
  });
  // The name in the header is informational: a copied or renamed pair of files remains valid.
  const InputFile weights(weights_file());
  if (weights.size() != static_cast<uint64_t>(bytes))
    throw RunError(text(weights.path().string(), ": is truncated or corrupt: expected ", bytes,
                        " bytes, got ", weights.size()));
  const uint32_t got = weights.crc(0, weights.size());
  if (got != static_cast<uint32_t>(crc))
    throw RunError(
        text(weights.path().string(), ": is corrupt: expected checksum ", crc, ", got ", got));
}

namespace {

/// Throws ConfigError if a tensor is missing or has another shape.
void expect_same(const std::string& file, const std::string& what, const NamedTensor& wanted,
                 const std::vector<int64_t>* got) {
  if (got == nullptr)
    throw ConfigError(text(file, ": has no ", what, " \"", wanted.name,
                           "\", which this job needs: the checkpoint is of another job (--weights "
                           "loads the tensors that match)"));
  if (!std::equal(got->begin(), got->end(), wanted.shape.extents().begin(),
                  wanted.shape.extents().end()))
    throw ConfigError(text(file, ": ", what, " \"", wanted.name, "\": expected shape ",
                           extents_text(wanted.shape.extents()), ", got ", extents_text(*got)));
}

}  // namespace

void Checkpoint::restore(const RunTensors& tensors) const {
  const SafetensorsFile weights(weights_file());
  const std::string weights_name = weights_file().string();
  for (const NamedTensor& tensor : tensors.weights) {
    const auto* entry = weights.find(tensor.name);
    expect_same(weights_name, "tensor", tensor, entry != nullptr ? &entry->shape : nullptr);
  }
  if (weights.entries().size() != tensors.weights.size())
    throw ConfigError(text(weights_name, ": has ", weights.entries().size(), " tensors, expected ",
                           tensors.weights.size(), " as in the network of this job"));
  check(state_.in_flight <= static_cast<int64_t>(tensors.sums.size()),
        "there is room for the sums in flight");
  const std::vector<const NamedTensor*> all = in_order(tensors, state_.in_flight);
  const std::span rest = std::span(all).subspan(tensors.weights.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    const Entry* entry = find(rest[i]->name);
    expect_same(file_.path().string(),
                i < tensors.optimizer.size() ? "optimizer state" : "sum in flight", *rest[i],
                entry != nullptr ? &entry->shape : nullptr);
  }
  if (entries_.size() != rest.size())
    throw ConfigError(text(file_.path().string(), ": has ", entries_.size(), " tensors of ",
                           state_.in_flight > 0 ? "optimizer state and sums" : "optimizer state",
                           ", expected ", rest.size(), " as in this job"));
  for (const NamedTensor& tensor : tensors.weights)
    tensor.set(weights.read(*weights.find(tensor.name)));
  std::vector<float> values;
  for (const NamedTensor* tensor : rest) {
    values.resize(tensor->count());
    file_.read(find(tensor->name)->offset, std::as_writable_bytes(std::span(values)));
    tensor->set(values);
  }
}

const Checkpoint::Entry* Checkpoint::find(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found != entries_.end() ? &*found : nullptr;
}

namespace {

/// Steps of the checkpoints in a folder, up to step `newest`, newest first.
std::vector<int64_t> steps_in(const fs::path& folder, int64_t newest) {
  std::vector<int64_t> steps;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    if (entry.path().extension() != ".state") continue;
    if (const auto step = step_of(entry.path()); step && *step <= newest) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& run_or_file, Log& log) {
  const bool is_run = fs::is_directory(run_or_file);
  if (!is_run && !fs::exists(run_or_file))
    throw ConfigError("--resume " + run_or_file.string() + ": no such run directory or file");
  const std::optional<int64_t> named = is_run ? std::nullopt : step_of(run_or_file);
  if (!is_run && !named) {
    fs::path state_file = run_or_file;
    return std::make_unique<Checkpoint>(state_file.replace_extension(".state"));
  }
  fs::path folder = is_run ? run_or_file / "checkpoints" : run_or_file.parent_path();
  if (is_run && !fs::is_directory(folder)) folder = run_or_file;
  const std::vector<int64_t> steps = steps_in(folder, named.value_or(INT64_MAX));
  if (steps.empty())
    throw ConfigError("--resume " + run_or_file.string() +
                      ": there is no checkpoint (a file "
                      "step-<N>.state) in " +
                      folder.string());
  if (named && steps.front() != *named)
    log.warning(text(run_or_file.string(), ": has no state file; the previous checkpoint is used"));
  for (const int64_t step : steps) {
    try {
      return std::make_unique<Checkpoint>(folder / (name_of(step) + ".state"));
    } catch (const RunError& error) {
      log.warning(text(error.what(), "; the previous checkpoint is used"));
    }
  }
  throw RunError("--resume " + run_or_file.string() + ": none of the " +
                 std::to_string(steps.size()) + " checkpoints is intact");
}

bool has_checkpoint(const fs::path& run) {
  return !steps_in(run / "checkpoints", INT64_MAX).empty();
}

namespace {

/// Calls `use` with the step and the line of each test in a run's metrics.
template <class Use>
void for_each_test(const fs::path& run, const Use& use) {
  std::ifstream lines(run / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("type", Json()) != "test") continue;
    if (const Json step = json.value("step", Json()); step.is_number_integer())
      use(step.get<int64_t>(), json);
  }
}

/// The step among `steps` with the best test accuracy; -1 if none of them was tested.
int64_t best_tested(const fs::path& run, std::span<const int64_t> steps) {
  int64_t best = -1;
  double best_top1 = -1;
  for_each_test(run, [&](int64_t step, const Json& line) {
    const Json top1 = line.value("top1", Json());
    if (!top1.is_number() || top1.get<double>() < best_top1) return;
    if (std::ranges::find(steps, step) == steps.end()) return;
    best = step;
    best_top1 = top1.get<double>();
  });
  return best;
}

}  // namespace

fs::path run_of_checkpoint(const fs::path& run_or_file) {
  if (fs::is_directory(run_or_file)) return run_or_file;
  return fs::absolute(run_or_file).parent_path().parent_path();
}

bool has_test(const fs::path& run, int64_t step) {
  bool found = false;
  for_each_test(run, [&](int64_t tested, const Json&) { found = found || tested == step; });
  return found;
}

void prune_checkpoints(const fs::path& run, int64_t keep, int64_t newest) {
  if (keep == 0) return;
  const fs::path folder = run / "checkpoints";
  const std::vector<int64_t> steps = steps_in(folder, newest);
  const int64_t best = best_tested(run, steps);
  for (size_t i = static_cast<size_t>(keep); i < steps.size(); ++i) {
    if (steps[i] == best) continue;
    std::error_code ignored;  // a file that cannot be removed only uses disk space
    fs::remove(folder / (name_of(steps[i]) + ".state"), ignored);
    fs::remove(folder / (name_of(steps[i]) + ".safetensors"), ignored);
  }
}

namespace {

std::string sha256_of(Tensors tensors) {
  Sha256 digest;
  std::vector<float> values;
  for (const NamedTensor* tensor : tensors) {
    values.resize(tensor->count());
    tensor->read(values);
    digest.update(std::as_bytes(std::span(values)));
  }
  return digest.hex();
}

}  // namespace

std::string weights_sha256(const RunTensors& tensors) {
  const std::vector<const NamedTensor*> all = in_order(tensors, 0);
  return sha256_of(Tensors(all).first(tensors.parameters));
}

std::string state_sha256(const RunTensors& tensors, int64_t in_flight) {
  return sha256_of(in_order(tensors, in_flight));
}

}  // namespace poseidon::trainer
