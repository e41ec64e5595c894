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
  std::vector<int64_t> shape;  ///< as its file has it: of four extents in files of old
  std::vector<float> values;
};

/// What a caffemodel says of one layer.
struct CaffeWeights {
  std::string layer;
  std::vector<CaffeBlob> blobs;
};

/// Reads the weights of a caffemodel (a NetParameter in protobuf's binary format), of layers in the
/// new form and in that of V1; those without blobs are left out. Throws ConfigError with file and
/// byte for what is damaged; takes no more memory than a small multiple of `bytes`.
std::vector<CaffeWeights> parse_caffemodel(std::span<const std::byte> bytes,
                                           const std::string& file);
std::vector<CaffeWeights> read_caffemodel(const std::filesystem::path& file);

/// The one tensor of a binaryproto file (a BlobProto), such as a mean image.
CaffeBlob read_binaryproto(const std::filesystem::path& file);

/// Where a file lies that a prototxt names: as Caffe looks for it, from where it is started, or by
/// its name beside the prototxt. Empty where it is in neither place.
std::filesystem::path find_named_file(const std::filesystem::path& named,
                                      const std::filesystem::path& prototxt);

}  // namespace poseidon::importer
