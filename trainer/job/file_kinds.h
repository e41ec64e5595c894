#pragma once

#include <filesystem>
#include <string>

namespace poseidon::trainer {

/// File formats that users confuse, recognized by their first bytes or their names.
enum class FileKind {
  kUnknown,
  kSafetensors,
  kPyTorch,     ///< a zip archive or a pickle, written by torch.save
  kCaffeModel,  ///< weights in protobuf's binary format
  kCaffeSolverState,
  kCaffeText,  ///< a prototxt: a network or a solver
  kHdf5,       ///< Caffe's or Keras's weights
  kOnnx,
};

/// Recognizes the format of a file; kUnknown if the file cannot be read.
FileKind kind_of_file(const std::filesystem::path& file);

/// For a file of weights in another format than safetensors: its kind, and the remedy, such as a
/// conversion command ("is a PyTorch file; ..."). "" for a safetensors file and for an unknown
/// kind.
std::string advice_on_weights(const std::filesystem::path& file);

/// For a file or folder that is not a job file: its kind, and the flag or command that accepts it.
/// "" if the file may be a job file.
std::string advice_on_job(const std::filesystem::path& file);

/// For a file that is not a caffemodel: its kind, and the remedy. "" if the file may be a
/// caffemodel.
std::string advice_on_caffemodel(const std::filesystem::path& file);

}  // namespace poseidon::trainer
