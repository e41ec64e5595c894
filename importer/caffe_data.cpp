#include "importer/caffe_data.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::importer {

namespace {

/// Returns the name of the field that contains the settings of a data layer type.
const char* field_of(const std::string& type) {
  if (type == "Data") return "data_param";
  if (type == "ImageData") return "image_data_param";
  if (type == "HDF5Data") return "hdf5_data_param";
  if (type == "MemoryData") return "memory_data_param";
  if (type == "DummyData") return "dummy_data_param";
  if (type == "WindowData") return "window_data_param";
  return "input_param";
}

/// Reads the preprocessing. `from` is "transform_param" or, for old files, the message of the data
/// layer type.
void read_transform(const MessageReader& from, CaffeData& data) {
  data.crop = from.integer("crop_size", kExtent).value_or(data.crop);
  data.mirror = from.boolean("mirror").value_or(data.mirror);
  data.mean_file = from.text("mean_file").value_or(data.mean_file);
  data.scale = from.number("scale").value_or(data.scale);
  for (const double mean : from.numbers("mean_value")) data.means.push_back(mean);
  data.color = from.boolean("force_color").value_or(data.color);
  data.gray = from.boolean("force_gray").value_or(data.gray);
}

void read_own_fields(const MessageReader& from, CaffeData& data) {
  data.source = from.text("source").value_or("");
  data.batch = from.integer("batch_size", kExtent).value_or(0);
  data.resize = {from.integer("new_height", kExtent).value_or(0),
                 from.integer("new_width", kExtent).value_or(0)};
  if (data.layer->type == "ImageData") data.color = from.boolean("is_color").value_or(true);
  // These fields describe how Caffe reads the data. Poseidon reads a record set instead.
  from.mark_as_read({"backend", "rand_skip", "prefetch", "force_encoded_color", "shuffle",
                     "root_folder", "cache_images", "data_filler"});
  read_transform(from, data);
}

void read_extents(const MessageReader& from, CaffeData& data) {
  const std::vector<MessageReader> shapes = from.messages("shape");
  if (!shapes.empty()) data.extents = shapes[0].integers("dim", kExtent);
  for (const MessageReader& shape : shapes) shape.mark_as_read({"dim"});
  if (!data.extents.empty()) return;
  for (const char* name : {"num", "channels", "height", "width"}) {
    const std::vector<int64_t> values = from.integers(name, kExtent);
    if (!values.empty())
      data.extents.push_back(values[0]);
    else if (std::string_view(name) == "num")
      data.extents.push_back(data.batch);
  }
  if (data.extents.size() != 4) data.extents.clear();
}

void refuse_windows(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("window_data_param");
  remarks.warn(
      layer.place(),
      layer.shown() +
          ": Poseidon does not cut windows out of images: cut them out before you pack them");
  from.mark_as_read({"fg_threshold", "bg_threshold", "fg_fraction", "context_pad", "crop_mode"});
}

}  // namespace

Place CaffeData::place_of_transform(std::string_view field) const {
  const MessageReader transform = layer->message.message("transform_param");
  if (transform.has(field)) return transform.place_of(field);
  return layer->message.message(field_of(layer->type)).place_of(field);
}

CaffeData read_data_layer(const CaffeLayer& layer, Remarks& remarks) {
  CaffeData data;
  data.layer = &layer;
  const MessageReader own = layer.message.message(field_of(layer.type));
  read_own_fields(own, data);
  read_extents(own, data);
  read_transform(layer.message.message("transform_param"), data);
  if (layer.type == "WindowData") refuse_windows(layer, remarks);
  if (data.batch == 0 && !data.extents.empty()) data.batch = data.extents[0];
  return data;
}

std::vector<std::vector<int64_t>> extents_of_tops(const CaffeLayer& layer) {
  const MessageReader from = layer.message.message(field_of(layer.type));
  std::vector<std::vector<int64_t>> told;
  for (const MessageReader& shape : from.messages("shape"))
    told.push_back(shape.integers("dim", kExtent));
  if (told.empty())
    for (const char* name : {"num", "channels", "height", "width"}) {
      const std::vector<int64_t> values = from.integers(name, kExtent);
      told.resize(std::max(told.size(), values.size()));
      for (size_t i = 0; i < values.size(); ++i) told[i].push_back(values[i]);
    }
  std::erase_if(told, [](const auto& extents) { return extents.empty(); });
  // A single shape is valid for all tops.
  if (told.size() == 1) told.resize(layer.tops.size(), told[0]);
  told.resize(layer.tops.size());
  return told;
}

namespace {

/// Converts extents of a batch, (n, c, h, w), (n, c) or (n), to the shape of a sample.
SampleShape without_samples(const std::vector<int64_t>& extents, const Place& place) {
  if (extents.size() > 4)
    fail_at(place, text("expected at most 4 extents of an input, got ", extents.size()));
  SampleShape shape{1, 1, 1};
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i] == 0) fail_at(place, "expected extents of an input >= 1, got 0");
    shape[i - 1] = extents[i];
  }
  return shape;
}

int64_t channels_of(const CaffeData& data) {
  if (data.gray) return 1;
  if (data.color) return 3;
  return data.means.size() > 1 ? static_cast<int64_t>(data.means.size()) : 0;
}

}  // namespace

SampleShape sample_shape(const CaffeNetwork& network, const std::optional<CaffeData>& data) {
  constexpr const char* kAsk = "expected --input CHANNELSxHEIGHTxWIDTH";
  if (!network.inputs().empty()) {
    const CaffeInput& input = network.inputs()[0];
    const Place place = network.top().place_of("input");
    if (input.extents.empty())
      fail_at(place, text("the file does not state the shape of \"", input.name, "\": ", kAsk));
    return without_samples(input.extents, place);
  }
  if (!data) fail_at(network.top().place(), "no input: expected \"input\" or a data layer");
  if (!data->extents.empty()) return without_samples(data->extents, data->layer->place());
  const int64_t height = data->crop > 0 ? data->crop : data->resize[0];
  const int64_t width = data->crop > 0 ? data->crop : data->resize[1];
  const int64_t channels = channels_of(*data);
  if (channels == 0 || height == 0 || width == 0)
    fail_at(data->layer->place(),
            text("only the data contains the sample shape of ", data->layer->shown(), ": ", kAsk));
  return {channels, height, width};
}

}  // namespace poseidon::importer
