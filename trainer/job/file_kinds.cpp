#include "trainer/job/file_kinds.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <string_view>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr size_t kHeadBytes = 4096;

std::string head_of(const fs::path& file) {
  std::error_code failure;
  if (!fs::is_regular_file(file, failure)) return "";
  std::string head(kHeadBytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  return head;
}

/// A safetensors file begins with the length of its JSON header (8 bytes, little-endian), followed
/// by the JSON object.
bool begins_as_safetensors(std::string_view head, uint64_t file_bytes) {
  if (head.size() < 9 || head[8] != '{') return false;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
  return length <= file_bytes - 8;
}

/// True for a zip archive with PyTorch's file extension or with entry names of torch.save. Also
/// true for a pickle with PyTorch's extension, the format of older versions.
bool begins_as_pytorch(std::string_view head, std::string_view extension) {
  const bool zip = head.starts_with("PK\x03\x04"sv);
  const bool named = extension == ".pt" || extension == ".pth" || extension == ".bin";
  const bool pickle = head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
  return (zip && (named || head.find("/data.pkl") != std::string_view::npos ||
                  head.find("/version") != std::string_view::npos)) ||
         (pickle && named);
}

/// True if the text is like a prototxt: after comments it begins with a name, followed by ':' or
/// '{'.
bool begins_as_caffe_text(std::string_view head) {
  if (head.find('\0') != std::string_view::npos) return false;
  size_t at = 0;
  while (at < head.size()) {
    if (head[at] == '#')
      at = std::min(head.find('\n', at), head.size());
    else if (std::isspace(static_cast<unsigned char>(head[at])) != 0)
      ++at;
    else
      break;
  }
  const size_t begin = at;
  while (at < head.size() &&
         (std::isalnum(static_cast<unsigned char>(head[at])) != 0 || head[at] == '_'))
    ++at;
  const bool named = at > begin && std::isalpha(static_cast<unsigned char>(head[begin])) != 0;
  while (at < head.size() && head[at] == ' ') ++at;
  return named && at < head.size() && (head[at] == ':' || head[at] == '{');
}

std::string quoted_command(const std::string& python) { return "python3 -c '" + python + "'"; }

std::string safetensors_name(const fs::path& file) {
  return fs::path(file.filename()).replace_extension(".safetensors").string();
}

std::string pytorch_text(const fs::path& file) {
  return text("is a PyTorch file; convert its state dict: ",
              quoted_command(text("import torch, safetensors.torch as s; s.save_file(torch.load(\"",
                                  file.string(), "\", map_location=\"cpu\", weights_only=True), \"",
                                  safetensors_name(file), "\")")));
}

std::string onnx_text(const fs::path& file) {
  return text("is an ONNX model; extract its weights: ",
              quoted_command(text("import onnx, safetensors.numpy as s; s.save_file({t.name: "
                                  "onnx.numpy_helper.to_array(t) for t in onnx.load(\"",
                                  file.string(), "\").graph.initializer}, \"",
                                  safetensors_name(file), "\")")));
}

std::string hdf5_text(const fs::path& file) {
  const std::string name = file.string();
  if (name.find("caffemodel") == std::string::npos && name.find("solverstate") == std::string::npos)
    return "is an HDF5 file, as Keras writes it; expected a safetensors file (in Python: "
           "safetensors.numpy.save_file of {name: array})";
  return "is an HDF5 file of Caffe; expected its binary form, which Caffe writes with "
         "\"snapshot_format: BINARYPROTO\" in the solver, or in Python: "
         "caffe.Net(\"NETWORK.prototxt\", \"" +
         name + "\", caffe.TEST).save(\"weights.caffemodel\")";
}

constexpr const char* kSolverStateText =
    "is the state of a Caffe solver, which holds no weights; expected the .caffemodel of the same "
    "iteration";

}  // namespace

FileKind kind_of_file(const fs::path& file) {
  const std::string head = head_of(file), extension = file.extension().string();
  if (head.empty()) return FileKind::kUnknown;
  std::error_code failure;
  if (head.starts_with("\x89HDF\r\n\x1a\n"sv)) return FileKind::kHdf5;
  if (begins_as_safetensors(head, fs::file_size(file, failure))) return FileKind::kSafetensors;
  if (begins_as_pytorch(head, extension)) return FileKind::kPyTorch;
  if (extension == ".onnx") return FileKind::kOnnx;
  if (extension == ".solverstate") return FileKind::kCaffeSolverState;
  // Tag of the first protobuf field: 0x08 for the iteration of a SolverState, another tag for the
  // name of a NetParameter.
  if (extension == ".caffemodel" && head[0] == '\x08') return FileKind::kCaffeSolverState;
  if (extension == ".caffemodel") return FileKind::kCaffeModel;
  if (begins_as_caffe_text(head)) return FileKind::kCaffeText;
  return FileKind::kUnknown;
}

std::string advice_on_weights(const fs::path& file) {
  switch (kind_of_file(file)) {
    case FileKind::kPyTorch: return pytorch_text(file);
    case FileKind::kOnnx: return onnx_text(file);
    case FileKind::kHdf5: return hdf5_text(file);
    case FileKind::kCaffeSolverState: return kSolverStateText;
    case FileKind::kCaffeModel:
      return text(
          "is a Caffe model; convert it to FOLDER/weights.safetensors: poseidon-import caffe "
          "FOLDER --prototxt FILE --weights ",
          file.string());
    case FileKind::kCaffeText:
      return "is a Caffe prototxt, which holds no weights; expected a safetensors file";
    default: return "";
  }
}

std::string advice_on_job(const fs::path& file) {
  if (fs::is_directory(file))
    return fs::exists(file / "config.json")
               ? text("is a run directory, expected a job file; to resume the run: --resume ",
                      file.string(), "; its job: ", (file / "config.json").string())
               : "";
  switch (kind_of_file(file)) {
    case FileKind::kSafetensors:
    case FileKind::kPyTorch:
    case FileKind::kOnnx:
    case FileKind::kHdf5:
    case FileKind::kCaffeModel:
      return "holds weights, expected a job file; to train from these weights, add --weights FILE";
    case FileKind::kCaffeSolverState:
      return text(kSolverStateText, " for --weights, and a job file here");
    case FileKind::kCaffeText:
      return text(
          "is a Caffe prototxt, expected a job file; convert network and solver: poseidon-import "
          "caffe FOLDER --prototxt NETWORK --solver SOLVER");
    case FileKind::kUnknown: return "";
  }
  return "";
}

std::string advice_on_caffemodel(const fs::path& file) {
  switch (kind_of_file(file)) {
    case FileKind::kHdf5: return hdf5_text(file);
    case FileKind::kCaffeSolverState: return kSolverStateText;
    case FileKind::kPyTorch: return "is a PyTorch file, expected a .caffemodel";
    case FileKind::kOnnx: return "is an ONNX model, expected a .caffemodel";
    case FileKind::kSafetensors:
      return "is a safetensors file, expected a .caffemodel; poseidon-train --weights reads it "
             "directly";
    case FileKind::kCaffeText:
      return "is a prototxt, which holds no weights; expected a .caffemodel";
    default: return "";
  }
}

}  // namespace poseidon::trainer
