#include "data/pack.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/opened_for_user.h"
#include "data/image_decoder.h"
#include "data/image_folder.h"
#include "data/image_source.h"
#include "data/jpeg.h"
#include "data/order.h"
#include "data/record_writer.h"
#include "data/resample.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

/// Classes without an image are named: they shift the labels of those behind them.
void warn_of_empty_classes(const ImageSource& source, Log& log) {
  std::set<std::string> filled;
  for (const ImageSource::Entry& entry : source.entries()) filled.insert(entry.class_name());
  for (const std::string& remark : remarks_on_classes(source.classes(), filled))
    log.warning(remark);
}

/// Folders of splits look like classes to a program.
void warn_of_splits(const std::vector<std::string>& classes, Log& log) {
  for (const char* split : {"train", "test", "val", "validation"})
    if (std::find(classes.begin(), classes.end(), split) != classes.end() && classes.size() <= 3) {
      log.warning(text("the classes found are ", classes.size(), ", one of them \"", split,
                       "\"; if that is a part of the dataset, choose it with --prefix ", split));
      return;
    }
}

int32_t label_of(const ImageSource::Entry& entry, const std::vector<std::string>& classes) {
  const auto at = std::find(classes.begin(), classes.end(), entry.class_name());
  if (at == classes.end())
    throw ConfigError(text(entry.name, ": the class \"", entry.class_name(),
                           "\" is not in the list of ", classes.size(), " classes given"));
  return static_cast<int32_t>(at - classes.begin());
}

/// Makes one record's sample of one image file.
class Packer {
 public:
  explicit Packer(const PackOptions& options) : options_(options) {}

  void prepare(std::span<const std::byte> bytes, const std::string& name, Sample& sample) {
    const ImageHeader header = decoder_.open(bytes, name);
    const bool shrink =
        options_.resize_short > 0 && std::min(header.height, header.width) > options_.resize_short;
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
    } else {
      sample.bytes = bytes;
    }
  }

 private:
  void shrink_image(const ImageHeader& header) {
    const double factor = static_cast<double>(std::min(header.height, header.width)) /
                          static_cast<double>(options_.resize_short);
    const auto scaled = [&](int64_t extent) {
      return std::max<int64_t>(1, std::llround(static_cast<double>(extent) / factor));
    };
    decoder_.decode({0, 0, header.height, header.width}, factor, static_cast<int>(header.channels),
                    part_);
    resize(part_.image, static_cast<double>(header.height) * part_.scale,
           static_cast<double>(header.width) * part_.scale, scaled(header.height),
           scaled(header.width), image_);
  }

  const PackOptions& options_;
  ImageDecoder decoder_;
  DecodedPart part_;
  Image image_;
};

}  // namespace

PackReport pack_images(const PackOptions& options, Log& log, const PackProgress& progress) {
  // The writer comes first: it sees that the output is free before an archive is unpacked.
  RecordWriter writer(options.output, options.shard_bytes);
  const auto source = opened_for_user(
      [&] { return open_image_source(options.input, options.prefix, writer.work_folder()); });
  const auto& entries = source->entries();
  const std::vector<std::string>& classes =
      options.classes.empty() ? source->classes() : options.classes;
  if (options.classes.empty()) warn_of_empty_classes(*source, log);
  warn_of_splits(classes, log);
  writer.set_classes(classes);

  const int64_t all = static_cast<int64_t>(entries.size());
  const Order order(all, options.shuffle_seed.value_or(0), options.shuffle_seed.has_value());
  PackReport report;
  report.classes = static_cast<int64_t>(classes.size());
  Packer packer(options);
  Sample sample;
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < all; ++i) {
    const ImageSource::Entry& entry = entries[static_cast<size_t>(order.at(i).index)];
    sample.label = label_of(entry, classes);
    source->read(entry, bytes);
    try {
      packer.prepare(bytes, text(options.input.string(), ": ", entry.name), sample);
      writer.add(entry.name, sample);
      ++report.samples;
    } catch (const CorruptSample& error) {
      if (options.on_error == OnError::kStop) throw;
      log.warning(text(error.what(), "; skipped"));
      ++report.skipped;
    }
    progress(i + 1, all);
  }
  writer.finish();
  return report;
}

PackReport pack_dataset(const Dataset& dataset, const fs::path& output, uint64_t shard_bytes,
                        const PackProgress& progress) {
  RecordWriter writer(output, shard_bytes);
  writer.set_classes(dataset.classes());
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
