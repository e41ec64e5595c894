#include "data/digits.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "data/fingerprint.h"

namespace poseidon::data {

namespace {

constexpr int kDigitSide = 28;

struct Point {
  float x = 0, y = 0;
};

using Stroke = std::vector<Point>;

/// Approximates an arc of an ellipse. Angles in degrees: 0 is right, 90 is down.
Stroke arc(Point center, float radius_x, float radius_y, float from, float to) {
  constexpr int kPieces = 10;
  Stroke stroke;
  for (int i = 0; i <= kPieces; ++i) {
    const float degrees = from + (to - from) * static_cast<float>(i) / kPieces;
    const float angle = degrees * std::numbers::pi_v<float> / 180;
    stroke.push_back(
        {center.x + radius_x * std::cos(angle), center.y + radius_y * std::sin(angle)});
  }
  return stroke;
}

/// One form of a digit: strokes in the unit square, y downwards. make_glyphs() returns several
/// forms of each digit. Each sample draws one of them.
using Glyph = std::vector<Stroke>;
std::vector<std::vector<Glyph>> make_glyphs() {
  const Glyph zero{arc({0.5f, 0.5f}, 0.3f, 0.48f, 0, 360)};
  const Glyph slim_zero{arc({0.5f, 0.5f}, 0.22f, 0.46f, 0, 360)};
  const Glyph one{{{0.5f, 0.02f}, {0.5f, 0.98f}}};
  const Glyph flagged_one{{{0.3f, 0.22f}, {0.52f, 0.02f}, {0.52f, 0.98f}}};
  const Glyph footed_one{{{0.3f, 0.22f}, {0.5f, 0.02f}, {0.5f, 0.98f}},
                         {{0.28f, 0.98f}, {0.72f, 0.98f}}};
  const Glyph two{arc({0.5f, 0.28f}, 0.28f, 0.26f, 190, 395),
                  {{0.73f, 0.43f}, {0.2f, 0.96f}, {0.82f, 0.96f}}};
  const Glyph looped_two{
      arc({0.48f, 0.27f}, 0.26f, 0.25f, 200, 400),
      {{0.68f, 0.43f}, {0.42f, 0.78f}, {0.22f, 0.92f}, {0.2f, 0.8f}, {0.4f, 0.8f}, {0.82f, 0.96f}}};
  const Glyph three{arc({0.47f, 0.26f}, 0.27f, 0.24f, 200, 450),
                    arc({0.47f, 0.74f}, 0.3f, 0.24f, 270, 520)};
  const Glyph flat_three{{{0.22f, 0.04f}, {0.76f, 0.04f}, {0.45f, 0.42f}},
                         arc({0.46f, 0.7f}, 0.3f, 0.28f, 270, 520)};
  const Glyph four{{{0.66f, 0.98f}, {0.66f, 0.02f}, {0.16f, 0.66f}, {0.86f, 0.66f}}};
  const Glyph open_four{{{0.26f, 0.04f}, {0.2f, 0.52f}, {0.78f, 0.52f}},
                        {{0.7f, 0.06f}, {0.66f, 0.98f}}};
  const Glyph five{{{0.78f, 0.04f}, {0.28f, 0.04f}, {0.24f, 0.45f}},
                   arc({0.46f, 0.68f}, 0.3f, 0.28f, 225, 510)};
  const Glyph narrow_five{{{0.7f, 0.03f}, {0.34f, 0.06f}, {0.3f, 0.46f}},
                          arc({0.47f, 0.7f}, 0.24f, 0.27f, 230, 500)};
  const Glyph six{{{0.68f, 0.03f}, {0.4f, 0.28f}, {0.24f, 0.6f}},
                  arc({0.5f, 0.7f}, 0.27f, 0.27f, 0, 360)};
  const Glyph round_six{arc({0.62f, 0.55f}, 0.4f, 0.53f, 180, 285),
                        arc({0.5f, 0.72f}, 0.27f, 0.25f, 0, 360)};
  const Glyph seven{{{0.18f, 0.04f}, {0.82f, 0.04f}, {0.42f, 0.98f}}};
  const Glyph barred_seven{{{0.2f, 0.05f}, {0.8f, 0.05f}, {0.44f, 0.98f}},
                           {{0.36f, 0.5f}, {0.76f, 0.48f}}};
  const Glyph eight{arc({0.5f, 0.26f}, 0.24f, 0.23f, 0, 360),
                    arc({0.5f, 0.73f}, 0.29f, 0.25f, 0, 360)};
  const Glyph slim_eight{arc({0.5f, 0.27f}, 0.19f, 0.24f, 0, 360),
                         arc({0.5f, 0.74f}, 0.22f, 0.24f, 0, 360)};
  const Glyph nine{arc({0.48f, 0.29f}, 0.27f, 0.26f, 0, 360),
                   {{0.75f, 0.3f}, {0.7f, 0.62f}, {0.56f, 0.98f}}};
  const Glyph hooked_nine{arc({0.48f, 0.28f}, 0.25f, 0.25f, 0, 360),
                          {{0.73f, 0.28f}, {0.74f, 0.7f}},
                          arc({0.5f, 0.7f}, 0.24f, 0.27f, 0, 140)};
  return {{zero, slim_zero},   {one, flagged_one, footed_one},
          {two, looped_two},   {three, flat_three},
          {four, open_four},   {five, narrow_five},
          {six, round_six},    {seven, barred_seven},
          {eight, slim_eight}, {nine, hooked_nine}};
}

/// Affine map from the unit square of a glyph to pixels: scale, slant, rotation and shift.
struct Placement {
  float xx, xy, yx, yy, dx, dy;
  Point operator()(Point p) const {
    return {xx * (p.x - 0.5f) + xy * (p.y - 0.5f) + dx, yx * (p.x - 0.5f) + yy * (p.y - 0.5f) + dy};
  }
};

Placement random_placement(RandomStream& random) {
  const float angle = random.next_uniform(-0.3f, 0.3f), slant = random.next_uniform(-0.3f, 0.3f);
  const float width = random.next_uniform(14, 22), height = random.next_uniform(16, 22);
  const float c = std::cos(angle), s = std::sin(angle);
  Placement placement{};
  placement.xx = c * width;
  placement.xy = (c * slant - s) * height;
  placement.yx = s * width;
  placement.yy = (s * slant + c) * height;
  placement.dx = 0.5f * kDigitSide + random.next_uniform(-2.5f, 2.5f);
  placement.dy = 0.5f * kDigitSide + random.next_uniform(-2.5f, 2.5f);
  return placement;
}

float squared_distance(Point p, Point a, Point b) {
  const float x = b.x - a.x, y = b.y - a.y;
  const float length = x * x + y * y;
  const float along = length > 0 ? ((p.x - a.x) * x + (p.y - a.y) * y) / length : 0;
  const float t = std::clamp(along, 0.0f, 1.0f);
  const float ex = p.x - a.x - t * x, ey = p.y - a.y - t * y;
  return ex * ex + ey * ey;
}

/// For each pixel: the squared distance from the center of the pixel to the nearest stroke. A pixel
/// far from all strokes may have any large value.
using Distances = std::array<float, kDigitSide * kDigitSide>;

void draw_line(Point a, Point b, float reach, Distances& distances) {
  const auto bound = [](float value) {
    return static_cast<int>(std::clamp(value, 0.0f, static_cast<float>(kDigitSide)));
  };
  const int top = bound(std::min(a.y, b.y) - reach), bottom = bound(std::max(a.y, b.y) + reach + 1);
  const int left = bound(std::min(a.x, b.x) - reach), right = bound(std::max(a.x, b.x) + reach + 1);
  for (int y = top; y < bottom; ++y)
    for (int x = left; x < right; ++x) {
      const Point pixel{static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f};
      float& nearest = distances[static_cast<size_t>(y * kDigitSide + x)];
      nearest = std::min(nearest, squared_distance(pixel, a, b));
    }
}

void draw_stroke(const Stroke& stroke, const Placement& place, float reach, RandomStream& random,
                 Distances& distances) {
  const auto shaken = [&](Point p) {
    const Point at = place(p);
    return Point{at.x + random.next_uniform(-0.5f, 0.5f), at.y + random.next_uniform(-0.5f, 0.5f)};
  };
  Point last = shaken(stroke[0]);
  for (size_t i = 1; i < stroke.size(); ++i) {
    const Point next = shaken(stroke[i]);
    draw_line(last, next, reach, distances);
    last = next;
  }
}

/// Writes pixels to `out`: ink within `radius` of a stroke, with a soft edge one pixel wide. Adds
/// noise.
void ink(const Distances& distances, float radius, RandomStream& random, std::span<std::byte> out) {
  const float brightness = random.next_uniform(150, 255), noise = random.next_uniform(5, 30);
  uint32_t word = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % 4 == 0) word = random.next_word();
    const float grain = static_cast<float>((word >> (8 * (i % 4))) & 255) / 127.5f - 1;
    const float cover = std::clamp(radius + 0.5f - std::sqrt(distances[i]), 0.0f, 1.0f);
    const float value = std::clamp(brightness * cover + noise * grain, 0.0f, 255.0f);
    out[i] = static_cast<std::byte>(static_cast<int>(value));
  }
}

class Digits final : public Dataset {
 public:
  Digits(int64_t samples, const std::string& split, uint64_t seed)
      : glyphs_(make_glyphs()), seed_(seed), stream_(split == "test" ? 1 : 0) {
    description_.source = "digits (generated)";
    description_.samples = samples;
    description_.shape = {1, kDigitSide, kDigitSide};
    for (int i = 0; i < 10; ++i) description_.classes.push_back(std::to_string(i));
    Fingerprint fingerprint;
    fingerprint.add("digits");
    fingerprint.add(split);
    fingerprint.add(static_cast<uint64_t>(samples));
    fingerprint.add(seed);
    description_.fingerprint = fingerprint.hex();
  }

  const DatasetDescription& description() const override { return description_; }

  void read(int64_t index, Sample& sample) const override {
    // Streams 2 (train) and 3 (test), because PairDataset uses stream 1 of the same purpose.
    RandomStream random(seed_, RandomPurpose::kGeneration, 2 + stream_,
                        static_cast<uint64_t>(index));
    sample.label = static_cast<int32_t>(index % 10);
    sample.form = SampleForm::kPixels;
    sample.channels = 1;
    sample.height = sample.width = kDigitSide;
    sample.storage.resize(kDigitSide * kDigitSide);
    sample.bytes = sample.storage;

    const auto& ways = glyphs_[static_cast<size_t>(sample.label)];
    const Glyph& glyph = ways[random.next_below(static_cast<uint32_t>(ways.size()))];
    const Placement place = random_placement(random);
    const float radius = random.next_uniform(0.7f, 1.9f);
    Distances distances;
    distances.fill(1e6f);
    for (const Stroke& stroke : glyph) draw_stroke(stroke, place, radius + 1, random, distances);
    ink(distances, radius, random, sample.storage);
  }

  std::string name(int64_t index) const override { return text("digits #", index); }

 private:
  const std::vector<std::vector<Glyph>> glyphs_;
  DatasetDescription description_;
  uint64_t seed_, stream_;
};

}  // namespace

std::unique_ptr<Dataset> make_digits(int64_t samples, const std::string& split, uint64_t seed) {
  return std::make_unique<Digits>(samples, split, seed);
}

}  // namespace poseidon::data
