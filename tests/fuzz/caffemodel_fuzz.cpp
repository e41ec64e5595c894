// Arbitrary bytes as a caffemodel: the reader throws ConfigError, or each tensor has as many values
// as its shape requires. The values must fit in the file.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "importer/caffe_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  try {
    size_t values = 0;
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    for (const importer::CaffeWeights& layer : importer::parse_caffemodel(bytes, "m.caffemodel"))
      for (const importer::CaffeBlob& blob : layer.blobs) {
        int64_t count = 1;
        for (const int64_t extent : blob.shape) count *= extent;
        if (count != static_cast<int64_t>(blob.values.size())) std::abort();
        values += blob.values.size();
      }
    if (values > size / sizeof(float)) std::abort();
  } catch (const ConfigError&) {
  }
  return 0;
}
