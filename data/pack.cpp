#include "data/pack.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/image_decoder.h"
#include "data/jpeg.h"
#include "data/pack_input.h"
#include "data/record_writer.h"
#include "data/resample.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Converts a sample to the form that a record stores.
class Packer {
 public:
  explicit Packer(const PackOptions& options) : options_(options) {}

  /// Shrinks, decodes or encodes the sample as the options require. Afterwards, `sample.bytes` is
  /// unchanged, or points into the sample or the packer.
  void prepare(const std::string& name, Sample& sample) {
    if (sample.form == SampleForm::kEncoded) return prepare_file(name, sample);
    if (wants_shrinking(sample.height, sample.width)) shrink_pixels(name, sample);
  }

 private:
  bool wants_shrinking(int64_t height, int64_t width) const {
    return options_.resize_short > 0 && std::min(height, width) > options_.resize_short;
  }

  void prepare_file(const std::string& name, Sample& sample) {
    const ImageHeader header = decoder_.open(sample.bytes, name, options_.orientation);
    const bool shrink = wants_shrinking(header.height, header.width);
    if (shrink)
      shrink_image(header);
    else if (options_.decode || options_.check_images)
      decoder_.decode_all(static_cast<int>(header.channels), image_);
    sample.form = options_.decode ? SampleForm::kPixels : SampleForm::kEncoded;
    sample.channels = header.channels;
    sample.height = shrink ? image_.height : header.height;
    sample.width = shrink ? image_.width : header.width;
    if (options_.decode) {
      sample.bytes = std::as_bytes(std::span(image_.pixels));
    } else if (shrink) {
      sample.storage = encode_jpeg(image_, options_.quality);
      sample.bytes = sample.storage;
    } else if (header.format == ImageFormat::kJpeg &&
               options_.orientation == OrientationRule::kIgnore) {
      // Readers of the record set would apply the orientation in the file. So the copy stores
      // upright.
      sample.storage = without_orientation(sample.bytes);
      sample.bytes = sample.storage;
    }
  }

  int64_t scaled(int64_t extent, int64_t shorter) const {
    const double factor = static_cast<double>(shorter) / static_cast<double>(options_.resize_short);
    return std::max<int64_t>(1, std::llround(static_cast<double>(extent) / factor));
  }

  void shrink_image(const ImageHeader& header) {
    const int64_t shorter = std::min(header.height, header.width);
    const double factor = static_cast<double>(shorter) / static_cast<double>(options_.resize_short);
    decoder_.decode({0, 0, header.height, header.width}, factor, static_cast<int>(header.channels),
                    part_);
    const Area whole{.top = -part_.top,
                     .left = -part_.left,
                     .height = static_cast<double>(header.height) * part_.scale,
                     .width = static_cast<double>(header.width) * part_.scale};
    resize(part_.image, whole, scaled(header.height, shorter), scaled(header.width, shorter),
           image_);
  }

  void shrink_pixels(const std::string& name, Sample& sample) {
    if (sample.channels != 1 && sample.channels != 3)
      throw CorruptSample(
          text(name, ": cannot be resized: expected 1 or 3 channels, got ", sample.channels));
    Image& whole = part_.image;
    whole.reshape(sample.height, sample.width, sample.channels);
    std::ranges::copy(sample.bytes, std::as_writable_bytes(std::span(whole.pixels)).begin());
    const int64_t shorter = std::min(whole.height, whole.width);
    const Area area{.height = static_cast<double>(whole.height),
                    .width = static_cast<double>(whole.width)};
    resize(whole, area, scaled(whole.height, shorter), scaled(whole.width, shorter), image_);
    sample.height = image_.height;
    sample.width = image_.width;
    sample.bytes = std::as_bytes(std::span(image_.pixels));
  }

  const PackOptions& options_;
  ImageDecoder decoder_;
  DecodedPart part_;
  Image image_;
};

/// Maps the labels of the input to labels of the record set.
class Labels {
 public:
  /// `own`: the class names of the input; labels are indices into them. Empty: the labels are plain
  /// numbers. `given`: the class names from the user; may be empty.
  Labels(std::vector<std::string> own, const std::vector<std::string>& given)
      : own_(std::move(own)), given_(given) {
    if (given_.empty()) return;
    for (const std::string& name : own_)
      wanted_.push_back(std::ranges::find(given_, name) - given_.begin());
  }

  /// Returns the record set's label for the input's `label`. Throws ConfigError if the class is not
  /// among the classes from the user.
  int32_t of(int32_t label, const std::string& name) {
    if (given_.empty()) {
      highest_ = std::max(highest_, label);
      lowest_ = std::min(lowest_, label);
      return label;
    }
    const bool named = !own_.empty();
    const int64_t wanted = named ? wanted_.at(static_cast<size_t>(label)) : label;
    if (wanted < static_cast<int64_t>(given_.size())) return static_cast<int32_t>(wanted);
    const std::string what =
        named ? text("class \"", own_[static_cast<size_t>(label)], "\"") : text("label ", label);
    throw ConfigError(text(name, ": the ", what, " is not one of the ", given_.size(),
                           " classes of --classes-from or --class-names"));
  }

  /// Returns true if labels are plain numbers and none of them is 0. They may then count from 1.
  bool begin_above_zero() const { return own_.empty() && given_.empty() && lowest_ > 0; }

  /// Returns the class names. If neither the input nor the user names classes, the names are the
  /// numbers from 0 to the highest label.
  std::vector<std::string> classes() const {
    if (!given_.empty()) return given_;
    if (!own_.empty()) return own_;
    std::vector<std::string> numbers;
    for (int32_t i = 0; i <= highest_; ++i) numbers.push_back(std::to_string(i));
    return numbers;
  }

 private:
  std::vector<std::string> own_;
  const std::vector<std::string>& given_;
  /// For each class in `own_`: its index in `given_`, or the size of `given_` if the class is
  /// missing there.
  std::vector<int64_t> wanted_;
  int32_t highest_ = 0, lowest_ = kMaxNumberedClasses;
};

/// Packs one sample after another.
class Packing {
 public:
  Packing(const PackOptions& options, SampleStream& stream, RecordWriter& writer)
      : stream_(stream),
        writer_(writer),
        packer_(options),
        labels_(stream.classes(), options.classes) {}

  /// Packs the next sample. Returns false at the end of the stream. Throws CorruptSample if the
  /// sample cannot be used.
  bool pack_next() {
    if (!stream_.next(name_, sample_)) return false;
    sample_.label = labels_.of(sample_.label, name_);
    packer_.prepare(text(stream_.source(), ": ", name_), sample_);
    writer_.set_auxiliary_inputs(stream_.extras(), text(stream_.source(), ": ", name_));
    writer_.add(name_, sample_);
    return true;
  }
  const Labels& labels() const { return labels_; }

 private:
  SampleStream& stream_;
  RecordWriter& writer_;
  Packer packer_;
  Labels labels_;
  std::string name_;
  Sample sample_;
};

}  // namespace

PackReport pack_samples(const PackOptions& options, Log& log, const PackProgress& progress) {
  // The constructor of the writer checks that the output folder is new or empty. This check
  // precedes the long decompression of an archive.
  RecordWriter writer(options.output, options.shard_bytes);
  const auto stream = open_pack_input(options, writer.work_folder(), log);
  Packing packing(options, *stream, writer);
  PackReport report;
  for (bool more = true; more;) {
    try {
      more = packing.pack_next();
      if (more) ++report.samples;
    } catch (const CorruptSample& error) {
      if (options.on_error == OnError::kStop) throw;
      log.warning(text(error.what(), "; skipped"));
      ++report.skipped;
    }
    if (more) progress(report.samples + report.skipped, stream->size());
  }
  const int64_t all = report.samples + report.skipped;
  if (stream->size() == 0) progress(all, all);
  if (packing.labels().begin_above_zero())
    log.warning("no sample has the label 0; labels count from 0, so the class \"0\" is empty");
  const std::vector<std::string> classes = packing.labels().classes();
  writer.set_classes(classes);
  writer.finish();
  report.classes = static_cast<int64_t>(classes.size());
  return report;
}

PackReport pack_dataset(const Dataset& dataset, const fs::path& output, uint64_t shard_bytes,
                        const PackProgress& progress) {
  RecordWriter writer(output, shard_bytes);
  writer.set_classes(dataset.classes());
  writer.set_auxiliary_inputs(dataset.description().extras, dataset.description().source);
  Sample sample;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, sample);
    writer.add(dataset.name(i), sample);
    progress(i + 1, dataset.size());
  }
  writer.finish();
  return {dataset.size(), static_cast<int64_t>(dataset.classes().size()), 0};
}

}  // namespace poseidon::data
