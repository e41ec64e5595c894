#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"

namespace poseidon {

/// The range of values that a number may have.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  ///< the minimum itself is excluded
};

inline constexpr Range kPositive{.minimum = 0, .above_minimum = true};
inline constexpr Range at_least(double minimum) { return {.minimum = minimum}; }
inline constexpr Range between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}

enum class Presence : uint8_t { kOptional, kRequired };

class Fields;
/// A callback that describes one object: it calls a member function of Fields for each key.
using Describe = std::function<void(Fields&)>;

/// One form of an object whose keys depend on the value of one key, usually "type". `name` is this
/// value. `describe` describes the other keys.
struct Variant {
  std::string name;
  std::string doc;
  Describe describe;
};

/// Padding cells at each side of both axes. Axis 0 is rows, axis 1 is columns.
struct Sides {
  std::array<int64_t, 2> before{0, 0};  ///< top, left
  std::array<int64_t, 2> after{0, 0};   ///< bottom, right

  static constexpr Sides of(std::array<int64_t, 2> both) { return {both, both}; }
  constexpr int64_t sum(size_t axis) const { return before[axis] + after[axis]; }
  constexpr bool operator==(const Sides&) const = default;
};

/// Visits the keys of one JSON object. A config struct describes itself once:
///
///     void PoolingFields::describe(Fields& fields) {
///       fields.pair("kernel", kernel, at_least(1), "window size", Presence::kRequired);
///     }
///
/// The same description serves to read the struct (read_fields), to write it with all values
/// (write_fields), and to generate its JSON Schema and reference page (schema_of). Therefore
/// reader, writer and schema always agree. If an optional key is absent, the member keeps its
/// value: the default is the value before the visit.
class Fields {
 public:
  virtual ~Fields() = default;

  virtual void boolean(std::string_view key, bool& value, std::string_view doc) = 0;
  virtual void integer(std::string_view key, int64_t& value, Range range, std::string_view doc,
                       Presence presence = Presence::kOptional) = 0;
  virtual void number(std::string_view key, double& value, Range range, std::string_view doc,
                      Presence presence = Presence::kOptional) = 0;
  virtual void text(std::string_view key, std::string& value, std::string_view doc,
                    Presence presence = Presence::kOptional) = 0;
  /// One integer for both axes, or [height, width].
  virtual void pair(std::string_view key, std::array<int64_t, 2>& value, Range range,
                    std::string_view doc, Presence presence = Presence::kOptional) = 0;
  /// One integer for all sides, [height, width], or [top, bottom, left, right].
  virtual void sides(std::string_view key, Sides& value, Range range, std::string_view doc,
                     Presence presence = Presence::kOptional) = 0;
  virtual void numbers(std::string_view key, std::vector<double>& value, Range range,
                       std::string_view doc, Presence presence = Presence::kOptional) = 0;
  virtual void integers(std::string_view key, std::vector<int64_t>& value, Range range,
                        std::string_view doc, Presence presence = Presence::kOptional) = 0;
  virtual void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc,
                     Presence presence = Presence::kOptional) = 0;
  /// A nested object. If `present` is not null, reading sets `*present` to whether the object
  /// exists, and writing omits the object if `*present` is false.
  virtual void object(std::string_view key, const Describe& describe, std::string_view doc,
                      Presence presence = Presence::kOptional, bool* present = nullptr) = 0;
  /// A list of objects, which has `size` elements before the visit. `describe` describes the
  /// element at an index. Reading first calls `resize` with the length of the JSON list. The schema
  /// of an empty list also calls `resize`, because it needs one element.
  virtual void objects(std::string_view key, size_t size, const std::function<void(size_t)>& resize,
                       const std::function<void(Fields&, size_t)>& describe, std::string_view doc,
                       Presence presence = Presence::kOptional) = 0;
  /// The value of `key` is the name of one of `variants`. The keys of this variant belong to the
  /// same object as `key`. `value` is the default name.
  virtual void variant(std::string_view key, std::string& value,
                       const std::vector<Variant>& variants, std::string_view doc,
                       Presence presence = Presence::kRequired) = 0;
  /// A JSON value that is stored unchanged.
  virtual void raw(std::string_view key, Json& value, std::string_view doc,
                   Presence presence = Presence::kOptional) = 0;

  /// A text that must be one of `names`; `index` is its index in `names`.
  virtual void choice(std::string_view key, int& index, const std::vector<std::string>& names,
                      std::string_view doc, Presence presence = Presence::kOptional) = 0;

  /// A choice for an enum whose enumerators are 0, 1, ... in the order of `names`.
  template <class Enum>
  void option(std::string_view key, Enum& value, const std::vector<std::string>& names,
              std::string_view doc, Presence presence = Presence::kOptional) {
    int index = static_cast<int>(value);
    choice(key, index, names, doc, presence);
    value = static_cast<Enum>(index);
  }
};

/// Reads an object. Each error is a ConfigError with its JSON path. finish() rejects unknown keys.
class FieldReader final : public Fields {
 public:
  /// `object` must outlive the reader. Throws ConfigError unless it is an object.
  FieldReader(const Json& object, JsonPath place);

  void boolean(std::string_view key, bool& value, std::string_view doc) override;
  void integer(std::string_view key, int64_t& value, Range range, std::string_view doc,
               Presence presence) override;
  void number(std::string_view key, double& value, Range range, std::string_view doc,
              Presence presence) override;
  void text(std::string_view key, std::string& value, std::string_view doc,
            Presence presence) override;
  void sides(std::string_view key, Sides& value, Range range, std::string_view doc,
             Presence presence) override;
  void pair(std::string_view key, std::array<int64_t, 2>& value, Range range, std::string_view doc,
            Presence presence) override;
  void numbers(std::string_view key, std::vector<double>& value, Range range, std::string_view doc,
               Presence presence) override;
  void integers(std::string_view key, std::vector<int64_t>& value, Range range,
                std::string_view doc, Presence presence) override;
  void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc,
             Presence presence) override;
  void object(std::string_view key, const Describe& describe, std::string_view doc,
              Presence presence, bool* present) override;
  void objects(std::string_view key, size_t size, const std::function<void(size_t)>& resize,
               const std::function<void(Fields&, size_t)>& describe, std::string_view doc,
               Presence presence) override;
  void variant(std::string_view key, std::string& value, const std::vector<Variant>& variants,
               std::string_view doc, Presence presence) override;
  void raw(std::string_view key, Json& value, std::string_view doc, Presence presence) override;
  void choice(std::string_view key, int& index, const std::vector<std::string>& names,
              std::string_view doc, Presence presence) override;

  bool has(std::string_view key) const;
  const JsonPath& place() const { return place_; }
  /// Rejects keys that no description requested, and suggests the most similar known key.
  void finish() const;

 private:
  const Json* find(std::string_view key, Presence presence);

  const Json& object_;
  JsonPath place_;
  std::vector<std::string> known_;
};

/// Reads `object` with `describe` and rejects unknown keys.
void read_fields(const Json& object, const JsonPath& place, const Describe& describe);

/// Writes the object that `describe` describes: every key with its value, except absent nested
/// objects and null raw values.
Json write_fields(const Describe& describe);

/// The JSON Schema (draft 2020-12) of the object that `describe` describes. Each key has its `doc`
/// as "description". An optional key has its default as "default", unless its value is an object, a
/// list of objects, or raw. The schema rejects unknown keys except notes (core/config_file.h).
Json schema_of(const Describe& describe);

}  // namespace poseidon
