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

/// The values a number may take.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  ///< the minimum itself is not allowed
};

inline constexpr Range kPositive{.minimum = 0, .above_minimum = true};
inline constexpr Range at_least(double minimum) { return {.minimum = minimum}; }
inline constexpr Range between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}

enum class Presence : uint8_t { kOptional, kRequired };

class Fields;
using Describe = std::function<void(Fields&)>;

/// One form of an object whose "type" key says which further keys it has.
struct Variant {
  std::string name;
  std::string doc;
  Describe describe;
};

/// Cells at each side of both axes: 0 are the rows, 1 the columns.
struct Sides {
  std::array<int64_t, 2> before{0, 0};  ///< top, left
  std::array<int64_t, 2> after{0, 0};   ///< bottom, right

  static constexpr Sides of(std::array<int64_t, 2> both) { return {both, both}; }
  constexpr int64_t sum(size_t axis) const { return before[axis] + after[axis]; }
  constexpr bool operator==(const Sides&) const = default;
};

/// Visits the keys of one JSON object. A config struct describes itself once,
///
///     void PoolingFields::describe(Fields& fields) {
///       fields.pair("kernel", kernel, at_least(1), "window height and width",
///       Presence::kRequired);
///
/// and that description reads it (read_fields), writes it resolved (write_fields), and makes its
/// JSON Schema and its reference page (schema_of), so that none of them can drift. An optional
/// key that is absent leaves the value as it is: the default is the value before the visit.
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
  /// A nested object. `present` (may be null) says whether it is there: read sets it, write obeys
  /// it.
  virtual void object(std::string_view key, const Describe& describe, std::string_view doc,
                      Presence presence = Presence::kOptional, bool* present = nullptr) = 0;
  /// A list of objects. `resize` is called with the number of elements, then `describe` for each.
  virtual void objects(std::string_view key, size_t size, const std::function<void(size_t)>& resize,
                       const std::function<void(Fields&, size_t)>& describe, std::string_view doc,
                       Presence presence = Presence::kOptional) = 0;
  /// `key` names one of `variants`, whose keys then belong to this same object. `value` is its
  /// default.
  virtual void variant(std::string_view key, std::string& value,
                       const std::vector<Variant>& variants, std::string_view doc,
                       Presence presence = Presence::kRequired) = 0;
  /// A JSON value that is taken as it is.
  virtual void raw(std::string_view key, Json& value, std::string_view doc,
                   Presence presence = Presence::kOptional) = 0;

  /// A text that is one of `names`; `index` is its index among them.
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

/// Reads an object; every error is a ConfigError with its place. Unknown keys are refused by
/// finish().
class FieldReader final : public Fields {
 public:
  /// `object` must outlive the reader. Throws ConfigError unless it is an object.
  FieldReader(const Json& object, JsonPlace place);

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
  const JsonPlace& place() const { return place_; }
  /// Refuses keys that nothing asked for, with the nearest known name.
  void finish() const;

 private:
  const Json* find(std::string_view key, Presence presence);

  const Json& object_;
  JsonPlace place_;
  std::vector<std::string> known_;
};

/// Reads `object` by `describe` and refuses unknown keys.
void read_fields(const Json& object, const JsonPlace& place, const Describe& describe);

/// The object that `describe` stands for, every key with its value.
Json write_fields(const Describe& describe);

/// The JSON Schema (draft 2020-12) of the object that `describe` stands for. Keys carry their text
/// as "description" and their default as "default"; unknown keys are refused by it.
Json schema_of(const Describe& describe);

}  // namespace poseidon
