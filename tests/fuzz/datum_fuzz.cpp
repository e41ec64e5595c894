// Arbitrary bytes as a Datum: the reader throws CorruptSample, or returns a sample with the stated
// numbers of pixels and auxiliary values. A decoded Datum can be encoded and decoded again.

#include <cstdint>
#include <cstdlib>

#include "data/datum.h"

namespace {

using namespace poseidon::data;

void check_encoding(const Datum& datum) {
  const std::vector<std::byte> message = encode_datum(datum);
  const Datum again = parse_datum(message, "d");
  if (again.channels != datum.channels || again.label != datum.label ||
      again.encoded != datum.encoded || again.bytes.size() != datum.bytes.size() ||
      again.floats.size() != datum.floats.size() || again.extras.size() != datum.extras.size())
    std::abort();
}

void check_sample(const Sample& sample) {
  const int64_t values = sample.channels * sample.height * sample.width;
  if (sample.label < 0) std::abort();
  if (sample.form == SampleForm::kPixels && static_cast<int64_t>(sample.bytes.size()) != values)
    std::abort();
}

void check_extras(const Datum& datum) {
  Sample sample;
  const int64_t values = poseidon::count_of(copy_auxiliary_inputs(datum, "d", sample));
  if (static_cast<int64_t>(sample.extras.size()) != 4 * values) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Datum datum = parse_datum({reinterpret_cast<const std::byte*>(data), size}, "d");
    if (datum.floats.size() > size / sizeof(float) || datum.bytes.size() > size) std::abort();
    check_encoding(datum);
    try {
      check_extras(datum);
    } catch (const CorruptSample&) {
    }
    for (const bool turned : {false, true}) {
      Sample sample;
      fill_from_datum(datum, turned, "d", sample);
      check_sample(sample);
    }
  } catch (const CorruptSample&) {
  }
  return 0;
}
