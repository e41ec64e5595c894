#include "importer/import.h"

#include <array>
#include <charconv>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/name_list.h"
#include "data/pfm.h"
#include "importer/caffe_model.h"
#include "importer/job_mapping.h"
#include "importer/json_text.h"
#include "importer/network_mapping.h"
#include "importer/new_folder.h"
#include "importer/weight_mapping.h"
#include "net/network.h"
#include "trainer/job/config.h"
#include "trainer/job/file_kinds.h"
#include "trainer/job/plausibility.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxTextBytes = 4 << 20;
constexpr const char* kMeanImage = "mean.pfm";

std::string read_text(const fs::path& file) {
  const trainer::FileKind kind = trainer::kind_of_file(file);
  if (kind != trainer::FileKind::kUnknown && kind != trainer::FileKind::kCaffeText)
    throw ConfigError(file.string() +
                      ": expected a prototxt, got weights; pass a .caffemodel with --weights");
  std::vector<std::byte> bytes;
  try {
    read_file(file, kMaxTextBytes, bytes);
  } catch (const RunError& error) {
    throw ConfigError(error.what());
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Converts Caffe's layout channels x height x width to height x width x channels. `reversed`:
/// reverse the channel order.
data::FloatImage image_of(const CaffeBlob& blob, const fs::path& file, bool reversed) {
  std::vector<int64_t> extents = blob.shape;
  if (extents.size() == 4 && extents[0] == 1) extents.erase(extents.begin());
  if (extents.size() != 3 || (extents[0] != 1 && extents[0] != 3))
    throw ConfigError(text(file.string(),
                           ": expected a mean image of 1 or 3 channels, got the shape ",
                           trainer::extents_text(blob.shape)));
  data::FloatImage image{
      .height = extents[1], .width = extents[2], .channels = extents[0], .values = {}};
  const int64_t area = image.height * image.width;
  for (int64_t i = 0; i < area; ++i)
    for (int64_t c = 0; c < image.channels; ++c) {
      const int64_t from = reversed ? image.channels - 1 - c : c;
      image.values.push_back(blob.values[static_cast<size_t>(from * area + i)]);
    }
  return image;
}

/// One import. Reads and checks all input before it writes a file.
class CaffeImporter {
 public:
  CaffeImporter(const CaffeImport& options, Log& log)
      : options_(options),
        log_(log),
        remarks_(log, options.skip_unknown),
        network_(read_text(options.prototxt), options.prototxt.string()) {}

  ImportReport run() {
    if (!options_.force) check_folder_is_empty(options_.output);
    read_data_layers();
    const SampleShape shape = options_.input ? *options_.input : sample_shape(network_, train_);
    if (options_.bgr_to_rgb && shape[0] != 3)
      throw ConfigError(text("--bgr-to-rgb: expected images of 3 channels, got ", shape[0]));
    imported_ = map_network(network_, shape, remarks_, options_.extras);
    check_network();
    remark_inputs();
    if (options_.weights.empty()) remark_zeros();
    if (!options_.solver.empty() || has_data()) make_job();
    network_.top().refuse_unread(remarks_);
    if (!options_.weights.empty()) make_weights();
    write();
    return report();
  }

 private:
  void read_data_layers() {
    for (const CaffeLayer& layer : network_.layers()) {
      if (!layer.is_data_layer()) continue;
      const CaffeData data = read_data_layer(layer, remarks_);
      if (layer.in_training && !train_) train_ = data;
      if (layer.in_testing && !layer.in_training && !test_) test_ = data;
    }
  }

  /// Returns true if a data layer provides training samples. An Input layer only states a shape.
  bool has_data() const { return train_ && train_->layer->type != "Input"; }

  /// Checks the Poseidon network. Reports an error in a layer at the position of its Caffe layer.
  void check_network() {
    const std::string file = (options_.output / "network.json").string();
    try {
      checked_.emplace(imported_.json, file, 1);
    } catch (const JsonPathError& error) {
      const std::string& pointer = error.place().pointer;
      for (size_t i = 0; i < imported_.layers.size(); ++i) {
        const std::string place = "/layers/" + std::to_string(i);
        if (pointer != place && !pointer.starts_with(place + "/")) continue;
        const CaffeLayer& layer = *imported_.layers[i].source;
        fail_at(layer.place(),
                layer.shown() + pointer.substr(place.size()) + ": " + error.message());
      }
      fail_at(network_.top().place(), error.message());
    }
  }

  void remark_inputs() {
    if (checked_->extras().empty()) return;
    remarks_.note(network_.top().place(),
                  text("the network has auxiliary inputs: ", text_of(checked_->extras()),
                       "; its dataset needs each of them, with this name and shape "
                       "(poseidon-data pack --extra)"));
  }

  /// Warns of layers whose weights all start at 0: Caffe's default filler is 0, and some old
  /// networks set no filler.
  void remark_zeros() {
    const std::vector<std::string> names = trainer::layers_of_zeros(*checked_);
    if (names.empty()) return;
    const auto first = std::ranges::find(imported_.layers, names[0], &ImportedLayer::name);
    remarks_.warn(
        first->source->place(),
        text(
            "without a \"weight_filler\", all weights start at 0, as in Caffe: all outputs of ",
            name_list(names),
            " are equal and stay equal; set weight_filler { type: \"xavier\" } or pass --weights"));
  }

  void make_job() {
    JobSources sources{.network_name = checked_->name(),
                       .solver = std::nullopt,
                       .train = has_data() ? train_ : std::nullopt,
                       .test = test_,
                       .mean_image = "",
                       .bgr_to_rgb = options_.bgr_to_rgb};
    if (!options_.solver.empty()) {
      solver_text_ = parse_text_message(read_text(options_.solver), options_.solver.string());
      sources.solver.emplace(&solver_text_, Place{options_.solver.string(), {}});
    }
    if (train_ && train_->means.empty() && !train_->mean_file.empty()) make_mean_image();
    if (mean_image_) sources.mean_image = kMeanImage;
    std::ranges::replace(sources.network_name, '/', '_');
    job_ = map_job(sources, remarks_);
    check_job(sources);
    if (sources.solver) sources.solver->refuse_unread(remarks_);
  }

  void check_job(const JobSources& sources) const {
    try {
      trainer::read_job_config(job_, (options_.output / "job.json").string());
    } catch (const JsonPathError& error) {
      const Place place = sources.solver ? place_of_key(*sources.solver, error.place().pointer)
                                         : train_->layer->place();
      fail_at(place, "for " + error.place().pointer + " of job.json: " + error.message());
    }
  }

  void make_mean_image() {
    const fs::path named = train_->mean_file;
    if (const fs::path file = find_named_file(named, options_.prototxt); !file.empty()) {
      mean_image_ = image_of(read_binaryproto(file), file, options_.bgr_to_rgb);
      return;
    }
    remarks_.warn(train_->place_of_transform("mean_file"),
                  "\"mean_file\": expected \"" + named.string() +
                      "\", or a file of that name next to " +
                      options_.prototxt.filename().string() +
                      ", got neither: job.json subtracts no mean (create one with poseidon-data "
                      "info --mean-image)");
  }

  void make_weights() {
    const std::string file = options_.weights.string();
    weights_ = map_weights(*checked_, imported_, read_caffemodel(options_.weights),
                           {.file = file, .bgr_to_rgb = options_.bgr_to_rgb}, log_);
  }

  void write() const {
    prepare_output_folder(options_.output);
    if (!weights_.tensors.empty()) {
      AtomicFile file(options_.output / "weights.safetensors");
      trainer::write_safetensors(file, weights_.tensors,
                                 {{"format", "pt"},
                                  {"producer", "poseidon"},
                                  {"parameters", std::to_string(weights_.parameters)}});
      file.commit();
    }
    if (mean_image_) {
      AtomicFile file(options_.output / kMeanImage);
      file.write(data::encode_pfm(*mean_image_));
      file.commit();
    }
    if (!job_.is_null()) write_file(options_.output / "job.json", json_text(job_));
    write_file(options_.output / "network.json", json_text(imported_.json));
  }

  ImportReport report() const {
    return {.network = checked_->name(),
            .layers = imported_.layers.size(),
            .parameters = checked_->parameter_count(),
            .job = !job_.is_null(),
            .tensors = weights_.tensors.size()};
  }

  const CaffeImport& options_;
  Log& log_;
  Remarks remarks_;
  const CaffeNetwork network_;
  std::optional<CaffeData> train_, test_;
  ImportedNetwork imported_;
  std::optional<net::Network> checked_;
  TextMessage solver_text_;
  Json job_;
  std::optional<data::FloatImage> mean_image_;
  ImportedWeights weights_;
};

}  // namespace

ImportReport import_caffe(const CaffeImport& options, Log& log) {
  return CaffeImporter(options, log).run();
}

SampleShape parse_sample_shape(const std::string& given) {
  SampleShape shape{};
  const char* at = given.data();
  const char* const end = at + given.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool separated = i == 0 || (at != end && *at++ == 'x');
    const auto [stop, fault] = std::from_chars(at, end, shape[i]);
    if (!separated || fault != std::errc() || shape[i] < 1 || shape[i] > 1 << 16 ||
        (i == 2 && stop != end))
      throw ConfigError("expected CHANNELSxHEIGHTxWIDTH such as 3x227x227, got " + given);
    at = stop;
  }
  return shape;
}

}  // namespace poseidon::importer
