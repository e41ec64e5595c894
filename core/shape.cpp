#include "core/shape.h"

#include "core/error.h"

namespace poseidon {

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  check(extents.size() <= kMaxRank, "a shape has at most four extents");
  int axis = 0;
  for (int64_t extent : extents) extents_[static_cast<size_t>(axis++)] = extent;
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (int64_t extent : extents()) product *= extent;
  return product;
}

std::string Shape::text() const {
  std::string out;
  for (int64_t extent : extents()) {
    if (!out.empty()) out += 'x';
    out += std::to_string(extent);
  }
  return out.empty() ? "scalar" : out;
}

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::kPlain: return "plain";
    case Layout::kChannelsLast: return "channels_last";
    case Layout::kBlocked8: return "blocked8";
    case Layout::kBlocked16: return "blocked16";
  }
  return "?";
}

namespace {

int64_t block_of(Layout layout, int64_t channels) {
  switch (layout) {
    case Layout::kPlain: return 1;
    case Layout::kChannelsLast: return channels;
    case Layout::kBlocked8: return 8;
    case Layout::kBlocked16: return 16;
  }
  return 1;
}

}  // namespace

Blocking::Blocking(const Shape& shape, Layout layout)
    : samples(shape.samples()),
      channels(shape.channels()),
      area(shape.area()),
      block(block_of(layout, channels)) {
  blocks = (channels + block - 1) / block;
}

}  // namespace poseidon
