#include "core/json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/as_config_error.h"
#include "core/config_file.h"
#include "core/error.h"
#include "core/file.h"

namespace poseidon {

namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxBytes = size_t{16} << 20;

struct LineColumn {
  size_t line = 1, column = 1;
};

LineColumn line_column(std::string_view json_text, size_t byte) {
  LineColumn at;
  for (char c : json_text.substr(0, std::min(byte, json_text.size()))) {
    at.column = c == '\n' ? 1 : at.column + 1;
    at.line += c == '\n' ? 1 : 0;
  }
  return at;
}

/// The extensions of JSON that a parse accepts: see parse_config.
struct Extensions {
  bool comments = false;
  bool notes = false;
};

constexpr std::string_view kSchemaKey = "$schema";

bool is_note(std::string_view key) { return key.starts_with('_') || key.starts_with("//"); }

/// Removes the keys for which is_note() is true from `value` and from all nested values.
void remove_notes(Json& value) {
  if (value.is_object())
    for (auto at = value.begin(); at != value.end();)
      at = is_note(at.key()) ? value.erase(at) : std::next(at);
  if (value.is_structured())
    for (Json& inner : value) remove_notes(inner);
}

/// The parser's callback. Rejects valid JSON that Poseidon does not accept: deep nesting, and
/// repeated keys other than notes.
class StrictCallback {
 public:
  StrictCallback(const std::string& file, bool notes) : file_(file), notes_(notes) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth)
      throw ConfigError(text(file_, ": nested deeper than ", kMaxDepth, " levels"));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) refuse_repeated(parsed.get<std::string>());
    return true;
  }

 private:
  void refuse_repeated(const std::string& key) {
    if (notes_ && is_note(key)) return;
    if (!keys_.back().insert(key).second)
      throw ConfigError(text(file_, ": duplicate key \"", key, "\" in one object"));
  }

  const std::string& file_;
  bool notes_;
  std::vector<std::set<std::string>> keys_;
};

/// The part of a library message that is useful to the user. It follows the prefix
/// "[json.exception...] parse error at line 1, column 2: ".
std::string reason(const std::string& what) {
  const size_t end = what.find("syntax error");
  const size_t start = end == std::string::npos ? what.rfind("] ") : end;
  if (start == std::string::npos) return what;
  return what.substr(end == std::string::npos ? start + 2 : start);
}

/// Returns `message` for the user, with "..." instead of the middle of a long text.
std::string shortened(const std::string& message) {
  constexpr size_t kMax = 200, kEnd = 40;
  if (message.size() <= kMax) return message;
  return message.substr(0, kMax - kEnd) + "..." + message.substr(message.size() - kEnd);
}

/// The position of the number that the message "number overflow parsing '1e999'" names; 0 if the
/// message names none.
size_t place_of_number(std::string_view json_text, const std::string& what) {
  const size_t begin = what.find('\''), end = what.rfind('\'');
  if (begin == end) return 0;
  return json_text.find(what.substr(begin + 1, end - begin - 1));
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

JsonPathError::JsonPathError(JsonPath place, std::string_view message)
    : ConfigError(
          text(place.file, ": ", place.pointer.empty() ? "/" : place.pointer, ": ", message)),
      place_(std::move(place)),
      message_(message) {}

void fail_at(const JsonPath& place, std::string_view message) {
  throw JsonPathError(place, message);
}

namespace {

Json parse(std::string_view json_text, const std::string& file_name, Extensions allowed) {
  if (json_text.size() > kMaxBytes)
    throw ConfigError(text(file_name, ": expected at most ", kMaxBytes, " bytes of JSON, got ",
                           json_text.size()));
  try {
    Json json =
        Json::parse(json_text, StrictCallback(file_name, allowed.notes), true, allowed.comments);
    if (allowed.notes) remove_notes(json);
    if (allowed.notes && json.is_object()) json.erase(std::string(kSchemaKey));
    return json;
  } catch (const Json::parse_error& error) {
    const LineColumn at = line_column(json_text, error.byte == 0 ? 0 : error.byte - 1);
    throw ConfigError(text(file_name, ":", at.line, ":", at.column,
                           ": not valid JSON: ", shortened(reason(error.what()))));
  } catch (const Json::exception& error) {
    const LineColumn at = line_column(json_text, place_of_number(json_text, error.what()));
    throw ConfigError(text(file_name, ":", at.line, ":", at.column,
                           ": not valid JSON: ", shortened(reason(error.what()))));
  }
}

std::string read_text(const std::filesystem::path& path) {
  std::vector<std::byte> bytes;
  as_config_error([&] { read_file(path, kMaxBytes, bytes); });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Json parse_json(std::string_view json_text, const std::string& file_name) {
  return parse(json_text, file_name, {});
}

Json parse_config(std::string_view json_text, const std::string& file_name) {
  return parse(json_text, file_name, {.comments = true, .notes = true});
}

Json read_json(const std::filesystem::path& path) {
  return parse(read_text(path), path.string(), {.comments = true});
}

Json read_config(const std::filesystem::path& path) {
  return parse_config(read_text(path), path.string());
}

std::string shown(const Json& value) {
  constexpr size_t kMax = 60;
  std::string out = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (out.size() > kMax) out = out.substr(0, kMax - 3) + "...";
  return out;
}

std::string nearest(std::string_view given, const std::vector<std::string>& candidates) {
  given = given.substr(0, 64);
  const size_t most = std::max<size_t>(2, given.size() / 3);
  std::string best;
  size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(given, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

namespace {

std::vector<std::string_view> words_of(std::string_view key) {
  std::vector<std::string_view> words;
  while (!key.empty()) {
    const size_t end = std::min(key.find('_'), key.size());
    words.push_back(key.substr(0, end));
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return words;
}

std::string initials_of(const std::vector<std::string_view>& words) {
  std::string initials;
  for (const std::string_view word : words) initials += word.substr(0, 1);
  return initials;
}

/// The number of words of `one` that `other` also contains, divided by the larger number of words.
/// Short words are not counted as common words.
double words_in_common(const std::vector<std::string_view>& one,
                       const std::vector<std::string_view>& other) {
  constexpr size_t kMinLetters = 4;
  const auto common = std::ranges::count_if(one, [&](std::string_view word) {
    return word.size() >= kMinLetters && std::ranges::find(other, word) != other.end();
  });
  return static_cast<double>(common) / static_cast<double>(std::max(one.size(), other.size()));
}

std::string question(const std::string& name) {
  return name.empty() ? "" : "; did you mean \"" + name + "\"?";
}

}  // namespace

std::string nearest_key(std::string_view given, const std::vector<std::string>& keys) {
  given = given.substr(0, 64);
  const std::vector<std::string_view> words = words_of(given);
  for (const std::string& key : keys)
    if (given.size() >= 2 && initials_of(words_of(key)) == given) return key;
  if (std::string near = nearest(given, keys); !near.empty()) return near;
  std::string best;
  double most = 0;
  for (const std::string& key : keys) {
    const double common = words_in_common(words, words_of(key));
    if (common > most) best = key;
    most = std::max(most, common);
  }
  return best;
}

std::string suggestion(std::string_view given, const std::vector<std::string>& candidates) {
  return question(nearest(given, candidates));
}

std::string key_suggestion(std::string_view given, const std::vector<std::string>& keys) {
  return question(nearest_key(given, keys));
}

}  // namespace poseidon
