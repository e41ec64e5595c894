#include "importer/caffe_model.h"

#include <bit>
#include <limits>

#include "core/counted.h"
#include "core/error.h"
#include "core/file.h"
#include "core/wire_message.h"
#include "trainer/job/file_kinds.h"

namespace poseidon::importer {

namespace {

constexpr size_t kMaxLayers = 100000, kMaxBlobs = 64, kMaxAxes = 32;
constexpr size_t kMaxFileBytes = size_t{1} << 31;  // protobuf's own limit

// Field numbers in the public caffe.proto.
namespace net_field {
constexpr uint32_t kV1Layers = 2, kLayer = 100;
}
namespace layer_field {
constexpr uint32_t kName = 1, kBlobs = 7;
}
namespace v1_field {
constexpr uint32_t kV0Layer = 1, kName = 4, kBlobs = 6;
}
namespace blob_field {
constexpr uint32_t kNum = 1, kWidth = 4, kData = 5, kShape = 7, kDoubleData = 8;
}
namespace shape_field {
constexpr uint32_t kDim = 1;
}

/// Reads one tensor (a BlobProto), whose shape has the current or the old form.
class BlobReader {
 public:
  CaffeBlob read(WireMessage message) {
    WireField field;
    while (message.next(field)) take(message, field);
    if (blob_.shape.empty() && legacy_) blob_.shape.assign(extents_, extents_ + 4);
    if (blob_.shape.empty()) blob_.shape.push_back(static_cast<int64_t>(blob_.values.size()));
    check_count(message, field);
    return std::move(blob_);
  }

 private:
  void take(const WireMessage& message, const WireField& field) {
    using namespace blob_field;
    if (field.number >= kNum && field.number <= kWidth) {
      legacy_ = true;
      extents_[field.number - kNum] = extent(message, field, field.value);
    }
    if (field.number == kShape) take_shape(WireMessage(message, field));
    if (field.number == kData) take_values<float, uint32_t>(message, field, WireType::kFixed32);
    if (field.number == kDoubleData)
      take_values<double, uint64_t>(message, field, WireType::kFixed64);
  }

  void take_shape(WireMessage message) {
    WireField field;
    while (message.next(field)) {
      if (field.number != shape_field::kDim) continue;
      if (field.type == WireType::kBytes)
        take_packed_extents(message, field);
      else
        add_extent(message, field, field.value);
    }
  }

  /// Reads extents in packed encoding: varints without tags.
  void take_packed_extents(const WireMessage& message, const WireField& field) {
    uint64_t value = 0;
    int shift = 0;
    for (const std::byte byte : field.bytes) {
      if (shift > 56) message.fail(field, "an extent is larger than any tensor");
      value |= static_cast<uint64_t>(byte & std::byte{0x7F}) << shift;
      shift += 7;
      if ((byte & std::byte{0x80}) != std::byte{0}) continue;
      add_extent(message, field, value);
      value = 0;
      shift = 0;
    }
    if (shift != 0) message.fail(field, "ends within an extent (cut off?)");
  }

  void add_extent(const WireMessage& message, const WireField& field, uint64_t value) {
    if (blob_.shape.size() == kMaxAxes)
      message.fail(field, text("expected a shape of at most ", kMaxAxes, " extents, got more"));
    blob_.shape.push_back(extent(message, field, value));
  }

  static int64_t extent(const WireMessage& message, const WireField& field, uint64_t value) {
    constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
    if (field.type != WireType::kVarint && field.type != WireType::kBytes)
      message.fail(field, "expected an extent, got a number of fixed size");
    if (value > kMax) message.fail(field, text("expected an extent up to ", kMax, ", got ", value));
    return static_cast<int64_t>(value);
  }

  template <class Value, class Bits>
  void take_values(const WireMessage& message, const WireField& field, WireType single) {
    if (field.type == single) {
      add_value(std::bit_cast<Value>(static_cast<Bits>(field.value)));
      return;
    }
    if (field.type != WireType::kBytes || field.bytes.size() % sizeof(Value) != 0)
      message.fail(field, text("expected values of ", sizeof(Value), " bytes, got ",
                               counted(field.bytes.size(), "byte")));
    if (blob_.values.empty()) blob_.values.reserve(field.bytes.size() / sizeof(Value));
    for (size_t i = 0; i < field.bytes.size(); i += sizeof(Value)) {
      Value value{};
      __builtin_memcpy(&value, field.bytes.data() + i, sizeof value);
      add_value(value);
    }
  }

  template <class Value>
  void add_value(Value value) {
    blob_.values.push_back(static_cast<float>(value));
  }

  void check_count(const WireMessage& message, const WireField& last) const {
    int64_t count = 1;
    for (const int64_t extent : blob_.shape)
      if (__builtin_mul_overflow(count, extent, &count))
        message.fail(last, "the shape has more than 2^63 elements");
    if (count != static_cast<int64_t>(blob_.values.size()))
      message.fail(last, text("expected ", counted(count, "value"), " for the tensor's shape, got ",
                              blob_.values.size()));
  }

  CaffeBlob blob_;
  int64_t extents_[4] = {1, 1, 1, 1};
  bool legacy_ = false;
};

struct LayerForm {
  uint32_t name, blobs;
};

CaffeWeights read_layer(WireMessage message, LayerForm form) {
  CaffeWeights weights;
  WireField field;
  while (message.next(field)) {
    if (field.number == form.name) weights.layer = message.text(field);
    if (field.number != form.blobs) continue;
    if (weights.blobs.size() == kMaxBlobs)
      message.fail(field, text("expected at most ", kMaxBlobs, " tensors in a layer, got more"));
    weights.blobs.push_back(BlobReader().read(WireMessage(message, field)));
  }
  return weights;
}

void refuse_v0(WireMessage message) {
  WireField field;
  while (message.next(field))
    if (field.number == v1_field::kV0Layer)
      message.fail(field,
                   "expected a layer of V1 or newer, got V0 (convert the file with Caffe's tool "
                   "upgrade_net_proto_binary)");
}

}  // namespace

std::vector<CaffeWeights> parse_caffemodel(std::span<const std::byte> bytes,
                                           const std::string& file) {
  std::vector<CaffeWeights> layers;
  WireMessage message(bytes, file);
  WireField field;
  while (message.next(field)) {
    if (field.number != net_field::kLayer && field.number != net_field::kV1Layers) continue;
    const bool v1 = field.number == net_field::kV1Layers;
    if (v1) refuse_v0(WireMessage(message, field));
    const LayerForm form = v1 ? LayerForm{v1_field::kName, v1_field::kBlobs}
                              : LayerForm{layer_field::kName, layer_field::kBlobs};
    CaffeWeights weights = read_layer(WireMessage(message, field), form);
    if (weights.blobs.empty()) continue;
    if (layers.size() == kMaxLayers)
      message.fail(field, text("expected at most ", kMaxLayers, " layers, got more"));
    layers.push_back(std::move(weights));
  }
  return layers;
}

namespace {

std::vector<std::byte> read_message(const std::filesystem::path& file) {
  const uint64_t bytes = file_bytes(open_file(file), file);
  if (bytes > kMaxFileBytes)
    throw ConfigError(text(file.string(), ": expected at most 2 GiB, the limit of protobuf, got ",
                           bytes, " bytes"));
  std::vector<std::byte> content;
  read_file(file, kMaxFileBytes, content);
  return content;
}

}  // namespace

std::vector<CaffeWeights> read_caffemodel(const std::filesystem::path& file) {
  if (const std::string advice = trainer::advice_on_caffemodel(file); !advice.empty())
    throw ConfigError(file.string() + ": " + advice);
  return parse_caffemodel(read_message(file), file.string());
}

CaffeBlob read_binaryproto(const std::filesystem::path& file) {
  const std::vector<std::byte> content = read_message(file);
  const std::string name = file.string();
  return BlobReader().read(WireMessage(content, name));
}

std::filesystem::path find_named_file(const std::filesystem::path& named,
                                      const std::filesystem::path& prototxt) {
  for (const std::filesystem::path& file : {named, prototxt.parent_path() / named.filename()})
    if (std::filesystem::is_regular_file(file)) return file;
  return {};
}

}  // namespace poseidon::importer
