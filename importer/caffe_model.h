#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace poseidon::importer {

/// One tensor as Caffe stores it.
struct CaffeBlob {
  std::vector<int64_t> shape;  ///< as in the file; if not stated: {number of values}
  std::vector<float> values;
};

/// The tensors of one layer in a caffemodel.
struct CaffeWeights {
  std::string layer;
  std::vector<CaffeBlob> blobs;
};

/// Reads the weights in a caffemodel (a NetParameter in protobuf's binary format), from layers of
/// the current and the V1 format. Omits layers without blobs. Throws ConfigError with file and byte
/// for damaged data. Allocates at most a small multiple of the size of `bytes`.
std::vector<CaffeWeights> parse_caffemodel(std::span<const std::byte> bytes,
                                           const std::string& file);
std::vector<CaffeWeights> read_caffemodel(const std::filesystem::path& file);

/// Reads the single tensor of a binaryproto file (a BlobProto), such as a mean image.
CaffeBlob read_binaryproto(const std::filesystem::path& file);

/// Finds a file that a prototxt names. First tries the path relative to the working directory, as
/// Caffe does, then the file name next to the prototxt. Returns an empty path if neither exists.
std::filesystem::path find_named_file(const std::filesystem::path& named,
                                      const std::filesystem::path& prototxt);

}  // namespace poseidon::importer
