#include "trainer/inference/feature_file.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/json.h"

namespace poseidon::trainer {

namespace {

constexpr const char* kLabels = "label";  // layers cannot have this name

Json entry_of(const char* type, const std::vector<int64_t>& shape, uint64_t begin, uint64_t end) {
  return {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

}  // namespace

FeatureFile::FeatureFile(const std::filesystem::path& path, const std::vector<Feature>& features,
                         int64_t samples)
    : file_(path) {
  Json header{{"__metadata__", {{"producer", "poseidon"}}}};
  uint64_t offset = 0;
  const auto add_region = [&](int64_t count) {
    const uint64_t begin = offset;
    offset += static_cast<uint64_t>(samples * count) * sizeof(float);
    regions_.push_back({begin, offset});
    return std::pair(begin, offset);
  };
  for (const Feature& feature : features) {
    const auto [begin, end] = add_region(feature.shape.count());
    header[feature.layer] = entry_of(
        "F32", {samples, feature.shape[0], feature.shape[1], feature.shape[2]}, begin, end);
  }
  const auto [begin, end] = add_region(1);
  header[kLabels] = entry_of("I32", {samples}, begin, end);
  std::string bytes = header.dump();
  bytes.resize((bytes.size() + 7) / 8 * 8, ' ');
  const uint64_t length = bytes.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(bytes);
  for (Region& region : regions_) {
    region.next += sizeof length + length;
    region.end += sizeof length + length;
  }
}

void FeatureFile::add(size_t feature, std::span<const float> values) {
  add(regions_[feature], std::as_bytes(values));
}

void FeatureFile::add_labels(std::span<const int32_t> labels) {
  add(regions_.back(), std::as_bytes(labels));
}

void FeatureFile::add(Region& region, std::span<const std::byte> bytes) {
  check(bytes.size() <= region.end - region.next, "more samples than announced");
  file_.write_at(region.next, bytes);
  region.next += bytes.size();
}

void FeatureFile::commit() {
  check(std::ranges::all_of(regions_, [](const Region& each) { return each.next == each.end; }),
        "fewer samples than announced");
  file_.commit();
}

}  // namespace poseidon::trainer
