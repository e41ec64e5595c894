#include "trainer/job/overrides.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "core/config_file.h"
#include "core/error.h"
#include "trainer/job/config.h"

namespace poseidon::trainer {

namespace {

struct Assignment {
  std::string argument;           ///< as typed
  std::vector<std::string> path;  ///< keys from the outermost object to the value
  Json value;
};

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> keys;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('.', start), path.size());
    keys.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return keys;
}

Json value_of(const std::string& typed) {
  Json value = Json::parse(typed, nullptr, false);
  return value.is_discarded() ? Json(typed) : value;
}

Assignment parse(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ConfigError("--set " + argument + ": expected PATH=VALUE, as in optimizer.momentum=0.9");
  Assignment assignment{argument, split(argument.substr(0, equals)),
                        value_of(argument.substr(equals + 1))};
  for (const std::string& key : assignment.path) {
    if (key.empty()) throw ConfigError("--set " + argument + ": a key is empty");
    if (key.find('/') != std::string::npos)
      throw ConfigError("--set " + argument +
                        ": expected dots between keys, as in optimizer.momentum=0.9");
  }
  return assignment;
}

/// Returns the object that contains the last key of assignment.path. Creates missing objects.
Json& holder_of(Json& job, const Assignment& assignment) {
  Json* at = &job;
  std::string path;
  for (const std::string& key : std::span(assignment.path).first(assignment.path.size() - 1)) {
    path += (path.empty() ? "" : ".") + key;
    at = &(*at)[key];
    if (at->is_null()) *at = Json::object();
    if (!at->is_object())
      throw ConfigError("--set " + assignment.argument + ": " + path + " is " + shown(*at) +
                        ", which has no keys");
  }
  return *at;
}

void remove_partner(Json& holder, const std::string& path) {
  static const std::vector<std::array<std::string, 3>> kPairs{
      {"data", "batch_per_worker", "global_batch"}, {"train", "steps", "epochs"}};
  for (const auto& [object, first, second] : kPairs) {
    if (path == object + "." + first) holder.erase(second);
    if (path == object + "." + second) holder.erase(first);
  }
}

const std::set<std::string> kPaths{"network",
                                   "data.train.path",
                                   "data.test.path",
                                   "data.train.transform.mean_image",
                                   "data.test.transform.mean_image",
                                   "device.choices",
                                   "device.times",
                                   "comm.plan"};

std::string joined(const std::vector<std::string>& keys) {
  std::string path;
  for (const std::string& key : keys) path += (path.empty() ? "" : ".") + key;
  return path;
}

void apply(Json& job, const Assignment& assignment, const std::filesystem::path& folder) {
  Json& holder = holder_of(job, assignment);
  const std::string path = joined(assignment.path);
  if (assignment.value.is_null()) {
    holder.erase(assignment.path.back());
    return;
  }
  remove_partner(holder, path);
  Json value = assignment.value;
  if (kPaths.contains(path) && value.is_string()) {
    const auto typed = value.get<std::string>();
    if (!typed.empty() && !typed.starts_with("${"))
      value = (folder / typed).lexically_normal().string();
  }
  holder[assignment.path.back()] = value;
}

// ---- keys that belong to one type only

template <class Config>
std::set<std::string> keys_of(const std::string& type) {
  Config config;
  config.type = type;
  const Json json = write_fields([&](Fields& fields) { config.describe(fields); });
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  return keys;
}

struct Typed {
  std::vector<std::string> path;
  std::set<std::string> (*keys)(const std::string& type);
};

const std::vector<Typed>& typed_objects() {
  static const std::vector<Typed> kTyped{{{"optimizer"}, keys_of<OptimizerConfig>},
                                         {{"optimizer", "schedule"}, keys_of<ScheduleConfig>},
                                         {{"data", "train"}, keys_of<data::DatasetConfig>},
                                         {{"data", "test"}, keys_of<data::DatasetConfig>}};
  return kTyped;
}

const Json* find(const Json& job, const std::vector<std::string>& path) {
  const Json* at = &job;
  for (const std::string& key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

std::string type_at(const Json& job, const std::vector<std::string>& path) {
  const Json* object = find(job, path);
  if (object == nullptr || !object->is_object() || !object->contains("type")) return "";
  const Json& type = (*object)["type"];
  return type.is_string() ? type.get<std::string>() : "";
}

void drop_keys_of_old_type(const Typed& typed, const std::string& old_type, Json& job,
                           const std::set<std::string>& assigned,
                           std::vector<std::string>& dropped) {
  const std::string new_type = type_at(job, typed.path);
  if (old_type.empty() || new_type.empty() || new_type == old_type) return;
  const std::set<std::string> old_keys = typed.keys(old_type), new_keys = typed.keys(new_type);
  Json* object = &job;
  for (const std::string& key : typed.path) object = &(*object)[key];
  for (const std::string& key : old_keys) {
    const std::string path = joined(typed.path) + "." + key;
    if (new_keys.contains(key) || assigned.contains(path) || !object->contains(key)) continue;
    object->erase(key);
    dropped.push_back(path);
  }
}

}  // namespace

namespace {

/// Adds the dotted paths of all keys of an object, including those of its variants.
void add_paths(const Json& schema, const std::string& prefix, std::vector<std::string>& paths) {
  if (!schema.is_object()) return;
  if (schema.contains("properties"))
    for (const auto& [key, inner] : schema["properties"].items()) {
      if (key.starts_with('$')) continue;
      const std::string path = prefix + key;
      if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
      add_paths(inner, path + ".", paths);
    }
  if (schema.contains("oneOf"))
    for (const Json& branch : schema["oneOf"]) add_paths(branch, prefix, paths);
}

/// Flags such as --workers also set these keys. An error about such a key names the key, not --set.
const std::set<std::string> kSetByFlags{"cluster.workers", "cluster.servers", "device.type",
                                        "device.indices",  "device.threads",  "device.times"};

std::string last_key(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// Whether the error concerns the value that the argument set, or an object that the argument
/// created.
bool is_about(const JsonPathError& error, const std::string& assigned) {
  const std::string& pointer = error.place().pointer;
  return pointer == assigned || pointer.starts_with(assigned + "/") ||
         (error.message().starts_with("unknown key") && assigned.starts_with(pointer + "/"));
}

}  // namespace

std::string nearest_job_path(std::string_view typed) {
  std::vector<std::string> paths, keys;
  add_paths(job_schema(), "", paths);
  // If several objects have the typed key, the key with the shortest path is meant.
  std::ranges::stable_sort(paths, {},
                           [](const std::string& path) { return std::ranges::count(path, '.'); });
  for (const std::string& path : paths) keys.push_back(last_key(path));
  if (const std::string near = nearest(typed, paths); !near.empty()) return near;
  const std::string key = last_key(std::string(typed));
  const auto same = std::ranges::find(keys, key);
  const auto at = same != keys.end() ? same : std::ranges::find(keys, nearest_key(key, keys));
  return at == keys.end() ? "" : paths[static_cast<size_t>(at - keys.begin())];
}

void refuse_override(const JsonPathError& error, std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    const Assignment assignment = parse(argument);
    std::string pointer;
    for (const std::string& key : assignment.path) pointer += "/" + key;
    const std::string path = joined(assignment.path);
    if (!is_about(error, pointer) || kSetByFlags.contains(path)) continue;
    if (!error.message().starts_with("unknown key"))
      throw ConfigError("--set " + argument + ": " + error.message());
    const std::string near = nearest_job_path(path);
    throw ConfigError("--set " + argument + ": the job has no such key" +
                      (near.empty() || near == path ? "" : "; did you mean " + near + "?"));
  }
}

std::vector<std::string> apply_overrides(Json& job, std::span<const std::string> arguments,
                                         const std::filesystem::path& folder) {
  std::vector<std::string> old_types, dropped;
  for (const Typed& typed : typed_objects()) old_types.push_back(type_at(job, typed.path));
  std::set<std::string> assigned;
  for (const std::string& argument : arguments) {
    const Assignment assignment = parse(argument);
    if (!job.is_object()) break;  // read_job_config() reports the error
    apply(job, assignment, folder);
    assigned.insert(joined(assignment.path));
  }
  for (size_t i = 0; i < old_types.size(); ++i)
    drop_keys_of_old_type(typed_objects()[i], old_types[i], job, assigned, dropped);
  return dropped;
}

}  // namespace poseidon::trainer
