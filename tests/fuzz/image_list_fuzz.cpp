// Arbitrary bytes as a list of images: the reader throws RunError, or returns nonempty paths and
// labels in range.

#include <cstdint>
#include <cstdlib>

#include "data/image_list.h"
#include "data/sample_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon::data;
  const std::string_view contents(reinterpret_cast<const char*>(data), size);
  for (const std::string& line : list_lines(contents))
    if (line.empty() || line.find('\n') != std::string::npos) std::abort();
  try {
    for (const ListedImage& image : parse_image_list(contents, "f"))
      if (image.path.empty() || image.label < 0 || image.label >= kMaxNumberedClasses) std::abort();
  } catch (const poseidon::RunError&) {
  }
  return 0;
}
