#include "trainer/state/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "core/bf16.h"
#include "core/error.h"
#include "trainer/job/file_kinds.h"

namespace poseidon::trainer {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

namespace {

constexpr uint64_t kMaxHeaderBytes = 16 << 20;

const std::map<std::string, uint64_t> kBytesOfType{
    {"F64", 8}, {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},
    {"U64", 8}, {"I32", 4}, {"U32", 4},     {"I16", 2},     {"U16", 2},
    {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};

Json header_of(std::span<const StoredTensor> tensors, const Json& metadata) {
  Json header{{"__metadata__", metadata}};
  uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    const uint64_t end = offset + tensor.bytes;
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

bool is_offset(const Json& json) { return json.is_number_unsigned(); }

}  // namespace

void write_safetensors(AtomicFile& file, std::span<const StoredTensor> tensors,
                       const Json& metadata) {
  std::string header = header_of(tensors, metadata).dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  std::vector<std::byte> bytes;
  for (const StoredTensor& tensor : tensors) {
    bytes.resize(tensor.bytes);
    tensor.get(bytes);
    file.write(bytes);
  }
}

void write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors,
                       const Json& metadata) {
  std::vector<StoredTensor> stored;
  for (const NamedTensor& tensor : tensors) {
    const std::span<const int64_t> extents = tensor.shape.extents();
    stored.push_back({.name = tensor.name,
                      .type = "F32",
                      .shape = {extents.begin(), extents.end()},
                      .bytes = tensor.count() * sizeof(float),
                      .get = [&tensor](std::span<std::byte> to) {
                        tensor.read({reinterpret_cast<float*>(to.data()), tensor.count()});
                      }});
  }
  write_safetensors(file, stored, metadata);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) { read_header(); }

void SafetensorsFile::fail(const std::string& message) const {
  throw RunError(file_.path().string() + ": " + message);
}

void SafetensorsFile::read_header() {
  if (const std::string advice = advice_on_weights(file_.path()); !advice.empty()) fail(advice);
  uint64_t length = 0;
  if (file_.size() < sizeof length)
    fail(text("is not a safetensors file: it has only ", file_.size(), " bytes"));
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeaderBytes || length > file_.size() - sizeof length)
    fail(text("is not a safetensors file, or is truncated: its header would have ", length,
              " bytes, the file has ", file_.size()));
  std::string header(length, '\0');
  file_.read(sizeof length, std::as_writable_bytes(std::span(header)));
  Json json;
  try {
    json = parse_json(header, file_.path().string());
  } catch (const ConfigError& error) {
    throw RunError(error.what());
  }
  if (!json.is_object()) fail("expected a JSON object as header, got " + shown(json));
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__")
      metadata_ = value;
    else
      entries_.push_back(read_entry(name, value, sizeof length + length));
  }
  refuse_overlaps();
}

void SafetensorsFile::refuse_overlaps() const {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries_)
    if (entry.bytes > 0) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, [](const Entry* entry) { return entry->offset; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes)
      fail(text("the data of tensor \"", sorted[i]->name, "\" overlap those of \"",
                sorted[i - 1]->name, "\""));
}

std::string SafetensorsFile::remove_wrappers() {
  std::string removed;
  for (const std::string_view prefix : {"module.", "_orig_mod.", "module."}) {
    const auto wrapped = [&](const Entry& entry) { return entry.name.starts_with(prefix); };
    if (entries_.empty() || !std::ranges::all_of(entries_, wrapped)) continue;
    for (Entry& entry : entries_) entry.name.erase(0, prefix.size());
    removed += prefix;
  }
  return removed;
}

SafetensorsFile::Entry SafetensorsFile::read_entry(const std::string& name, const Json& json,
                                                   uint64_t data_begin) const {
  const auto expect = [&](bool condition, const char* expected) {
    if (!condition) fail(text("tensor \"", name, "\": expected ", expected, ", got ", shown(json)));
  };
  expect(json.is_object() && json.contains("dtype") && json.contains("shape") &&
             json.contains("data_offsets"),
         "dtype, shape and data_offsets");
  const Json &type = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  expect(type.is_string() && kBytesOfType.contains(type.get<std::string>()), "a known dtype");
  expect(shape.is_array() && shape.size() <= 16, "a shape");
  expect(
      offsets.is_array() && offsets.size() == 2 && is_offset(offsets[0]) && is_offset(offsets[1]),
      "two offsets");
  Entry entry{.name = name, .type = type.get<std::string>(), .shape = {}};
  uint64_t bytes = kBytesOfType.at(entry.type);
  for (const Json& extent : shape) {
    expect(extent.is_number_unsigned() &&
               !__builtin_mul_overflow(bytes, extent.get<uint64_t>(), &bytes) &&
               bytes <= uint64_t{1} << 60,
           "extents >= 0 of at most 2^60 bytes");
    entry.shape.push_back(extent.get<int64_t>());
  }
  const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  expect(begin <= end && end - begin == bytes, "offsets that fit the shape");
  if (end > file_.size() - data_begin)
    fail(text("tensor \"", name, "\" ends at byte ", end, " of the data, which has only ",
              file_.size() - data_begin, " (truncated?)"));
  entry.offset = data_begin + begin;
  entry.bytes = bytes;
  return entry;
}

const SafetensorsFile::Entry* SafetensorsFile::find(const std::string& name) const {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return at == entries_.end() ? nullptr : &*at;
}

template <class Value>
std::vector<Value> SafetensorsFile::read_values(const Entry& entry, const char* type) const {
  if (entry.type != type)
    fail(text("tensor \"", entry.name, "\": expected dtype ", type, ", got ", entry.type));
  std::vector<Value> values(entry.bytes / sizeof(Value));
  file_.read(entry.offset, std::as_writable_bytes(std::span(values)));
  return values;
}

namespace {

/// Converts IEEE 754 half precision.
float value_of_half(uint16_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent < 31) return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return mantissa == 0 ? sign * kInfinity : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

bool holds_floats(std::string_view type) {
  return type == "F32" || type == "F16" || type == "BF16";
}

std::vector<float> SafetensorsFile::read(const Entry& entry) const {
  if (entry.type == "BF16") {
    const std::vector<Bf16> values = read_values<Bf16>(entry, "BF16");
    return {values.begin(), values.end()};
  }
  if (entry.type == "F16") {
    std::vector<float> values;
    for (const uint16_t bits : read_values<uint16_t>(entry, "F16"))
      values.push_back(value_of_half(bits));
    return values;
  }
  return read_values<float>(entry, "F32");
}

std::vector<int64_t> SafetensorsFile::read_integers(const Entry& entry) const {
  return read_values<int64_t>(entry, "I64");
}

std::string extents_text(std::span<const int64_t> extents) {
  std::string out;
  for (int64_t extent : extents) {
    if (!out.empty()) out += 'x';
    out += std::to_string(extent);
  }
  return out.empty() ? "scalar" : out;
}

}  // namespace poseidon::trainer
