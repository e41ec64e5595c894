#include "data/datum.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/wire_message.h"
#include "data/image.h"
#include "data/sample_stream.h"

namespace poseidon::data {

namespace {

/// Field numbers of Caffe's message Datum.
enum DatumField : uint32_t {
  kChannelsField = 1,
  kHeightField = 2,
  kWidthField = 3,
  kDataField = 4,
  kLabelField = 5,
  kFloatField = 6,
  kEncodedField = 7,
  kExtraField = 100  ///< nested message with name, extents and values; not in Caffe's Datum
};
enum ExtraField : uint32_t { kNameField = 1, kExtentField = 2, kValuesField = 3 };

constexpr int64_t kMaxChannels = 255;  // a record set stores the number in 8 bits

float float_at(const std::byte* at) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 4; ++i) bits |= std::to_integer<uint32_t>(at[i]) << (8 * i);
  return std::bit_cast<float>(bits);
}

class DatumParser {
 public:
  DatumParser(std::span<const std::byte> message, const std::string& name) : wire_(message, name) {}

  Datum parse() {
    WireField field;
    while (wire_.next(field)) take(field);
    return std::move(datum_);
  }

 private:
  void take(const WireField& field) {
    switch (field.number) {
      case kChannelsField: datum_.channels = number(field); return;
      case kHeightField: datum_.height = number(field); return;
      case kWidthField: datum_.width = number(field); return;
      case kLabelField: datum_.label = number(field); return;
      case kEncodedField: datum_.encoded = number(field) != 0; return;
      case kDataField: datum_.bytes = bytes(field); return;
      case kFloatField: take_floats(field); return;
      case kExtraField: take_extra(field); return;
      default: return;  // field of a later Caffe version
    }
  }

  int64_t number(const WireField& field) const {
    if (field.type != WireType::kVarint) wire_.fail(field, "expected an integer");
    return static_cast<int64_t>(field.value);
  }

  std::span<const std::byte> bytes(const WireField& field) const {
    if (field.type != WireType::kBytes) wire_.fail(field, "expected bytes");
    return field.bytes;
  }

  /// Adds the floats of a field. A message stores each float in a separate field, or all floats in
  /// one packed field.
  void take_floats(const WireField& field) {
    if (field.type == WireType::kFixed32) {
      datum_.floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(field.value)));
      return;
    }
    const std::span<const std::byte> packed = bytes(field);
    if (packed.size() % sizeof(float) != 0)
      wire_.fail(field, text("expected floats of 4 bytes each, got ", packed.size(), " bytes"));
    for (size_t i = 0; i < packed.size(); i += sizeof(float))
      datum_.floats.push_back(float_at(packed.data() + i));
  }

  void take_extra(const WireField& outer) {
    WireMessage wire(wire_, outer);
    Datum::NamedValues taken;
    WireField field;
    while (wire.next(field)) {
      if (field.number == kNameField) taken.extra.name = wire.text(field);
      if (field.number == kExtentField) taken.extra.extents.push_back(number(field));
      if (field.number == kValuesField) taken.values = bytes(field);
    }
    datum_.extras.push_back(std::move(taken));
  }

  WireMessage wire_;
  Datum datum_;
};

void append_varint(uint64_t value, std::vector<std::byte>& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

void append_number(uint32_t field, int64_t value, std::vector<std::byte>& out) {
  append_varint(field << 3 | static_cast<uint32_t>(WireType::kVarint), out);
  append_varint(static_cast<uint64_t>(value), out);
}

void append_bytes(uint32_t field, std::span<const std::byte> bytes, std::vector<std::byte>& out) {
  append_varint(field << 3 | static_cast<uint32_t>(WireType::kBytes), out);
  append_varint(bytes.size(), out);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_extra(const Datum::NamedValues& extra, std::vector<std::byte>& out) {
  std::vector<std::byte> message;
  append_bytes(kNameField, std::as_bytes(std::span(extra.extra.name)), message);
  for (const int64_t extent : extra.extra.extents) append_number(kExtentField, extent, message);
  append_bytes(kValuesField, extra.values, message);
  append_bytes(kExtraField, message, out);
}

/// Returns the number of values of the datum's shape. Throws CorruptSample if an extent is out of
/// range.
size_t values_of(const Datum& datum, const std::string& name) {
  const bool holds = datum.channels >= 1 && datum.channels <= kMaxChannels && datum.height >= 1 &&
                     datum.width >= 1 && datum.width <= kMaxImagePixels &&
                     datum.height <= kMaxImagePixels / datum.width;
  if (!holds)
    throw CorruptSample(text(name, ": expected a sample of 1 to ", kMaxChannels,
                             " channels and 1 to ", kMaxImagePixels, " pixels, got ",
                             datum.channels, "x", datum.height, "x", datum.width));
  return static_cast<size_t>(datum.channels * datum.height * datum.width);
}

void check_values(size_t got, size_t expected, const Datum& datum, const std::string& name) {
  if (got != expected)
    throw CorruptSample(text(name, ": expected ", expected, " values for a sample of ",
                             datum.channels, "x", datum.height, "x", datum.width, ", got ", got));
}

/// Converts a float to a pixel. Throws CorruptSample unless the float is an integer from 0 to 255.
std::byte pixel_of(float value, const std::string& name) {
  if (!(value >= 0 && value <= 255 && value == std::floor(value)))
    throw CorruptSample(text(name, ": expected integers from 0 to 255, as a record set stores ",
                             "8-bit pixels, got ", value));
  return static_cast<std::byte>(static_cast<uint8_t>(value));
}

/// Writes the datum's values to `sample` as height x width x channels. `pixel(i)` returns value i
/// in the layout channels x height x width.
template <class Pixel>
void interleave(const Datum& datum, bool bgr_to_rgb, const Pixel& pixel, Sample& sample) {
  const auto channels = static_cast<size_t>(datum.channels);
  const auto count = static_cast<size_t>(datum.height * datum.width);
  const bool turned = bgr_to_rgb && channels == 3;
  sample.storage.resize(channels * count);
  for (size_t c = 0; c < channels; ++c) {
    const size_t to = turned ? channels - 1 - c : c;
    for (size_t i = 0; i < count; ++i) sample.storage[i * channels + to] = pixel(c * count + i);
  }
  sample.bytes = sample.storage;
}

void take_pixels(const Datum& datum, bool bgr_to_rgb, const std::string& name, Sample& sample) {
  const size_t expected = values_of(datum, name);
  sample.form = SampleForm::kPixels;
  sample.channels = datum.channels;
  sample.height = datum.height;
  sample.width = datum.width;
  if (datum.floats.empty()) {
    check_values(datum.bytes.size(), expected, datum, name);
    interleave(
        datum, bgr_to_rgb, [&](size_t i) { return datum.bytes[i]; }, sample);
  } else {
    check_values(datum.floats.size(), expected, datum, name);
    interleave(
        datum, bgr_to_rgb, [&](size_t i) { return pixel_of(datum.floats[i], name); }, sample);
  }
}

}  // namespace

Datum parse_datum(std::span<const std::byte> message, const std::string& name) {
  try {
    return DatumParser(message, name).parse();
  } catch (const ConfigError& error) {
    throw CorruptSample(error.what());
  }
}

std::vector<std::byte> encode_datum(const Datum& datum) {
  std::vector<std::byte> out;
  append_number(kChannelsField, datum.channels, out);
  append_number(kHeightField, datum.height, out);
  append_number(kWidthField, datum.width, out);
  if (!datum.bytes.empty()) append_bytes(kDataField, datum.bytes, out);
  if (datum.label) append_number(kLabelField, *datum.label, out);
  if (!datum.floats.empty())  // in memory and in protobuf, floats are little-endian
    append_bytes(kFloatField, std::as_bytes(std::span(datum.floats)), out);
  if (datum.encoded) append_number(kEncodedField, 1, out);
  for (const Datum::NamedValues& extra : datum.extras) append_extra(extra, out);
  return out;
}

void fill_from_datum(const Datum& datum, bool bgr_to_rgb, const std::string& name, Sample& sample) {
  if (!datum.label) throw CorruptSample(text(name, ": has no label"));
  sample.label = checked_label(*datum.label, name);
  if (!datum.encoded) return take_pixels(datum, bgr_to_rgb, name, sample);
  sample.form = SampleForm::kEncoded;
  sample.bytes = datum.bytes;
}

std::vector<AuxiliaryInput> copy_auxiliary_inputs(const Datum& datum, const std::string& name,
                                                  Sample& sample) {
  std::vector<AuxiliaryInput> extras;
  for (const Datum::NamedValues& each : datum.extras) extras.push_back(each.extra);
  if (const AuxiliaryInputError fault = first_error_in(extras))
    throw CorruptSample(text(name, ": extras", fault.pointer, ": ", fault.message));
  sample.extras_storage.clear();
  for (const Datum::NamedValues& each : datum.extras) {
    const auto expected = static_cast<size_t>(each.extra.count());
    if (each.values.size() != expected * sizeof(float))
      throw CorruptSample(text(name, ": extra \"", each.extra.name, "\": expected ", expected,
                               " floats of 4 bytes, got ", each.values.size(), " bytes"));
    sample.extras_storage.insert(sample.extras_storage.end(), each.values.begin(),
                                 each.values.end());
  }
  sample.extras = sample.extras_storage;
  return extras;
}

}  // namespace poseidon::data
