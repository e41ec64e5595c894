#pragma once

#include <filesystem>
#include <string>

#include "tests/trainer/tiny_job.h"

namespace poseidon::apps {

/// A network of one layer for images of 6 x 6 pixels in two classes.
inline constexpr const char* kColourNetwork = R"({
  "name": "tiny", "input": {"channels": 3, "height": 6, "width": 6},
  "layers": [
    {"name": "ip", "type": "linear", "outputs": 2, "weight_filler": {"type": "xavier"}},
    {"name": "loss", "type": "softmax_loss"}]})";

/// Writes two classes of eight images each, with side x side pixels. pixel(class, image, byte)
/// gives each byte. Returns the data set's settings for a job.
template <class Pixel>
std::string write_images(const std::filesystem::path& folder, int side, const Pixel& pixel) {
  const std::string size = std::to_string(side);
  for (const char* kind : {"a", "b"}) {
    std::filesystem::create_directories(folder / kind);
    for (char number = '0'; number < '8'; ++number) {
      std::string pixels;
      for (int i = 0; i < 3 * side * side; ++i)
        pixels += static_cast<char>(pixel(*kind, number - '0', i));
      trainer::write_text(folder / kind / (std::string(1, number) + ".ppm"),
                          "P6\n" + size + " " + size + "\n255\n" + pixels);
    }
  }
  return R"({"type": "images", "path": ")" + folder.string() + R"("})";
}

/// Images of 6 x 6 pixels, one color per class.
inline std::string colour_images(const std::filesystem::path& folder) {
  return write_images(folder, 6, [](char kind, int, int) { return kind; });
}

/// Images of 9 x 9 pixels. All images, and all crops of them, differ.
inline std::string varied_images(const std::filesystem::path& folder) {
  return write_images(folder, 9, [](char kind, int number, int i) {
    return (i * i * 7 + i * (number + 3) * kind) % 251;
  });
}

}  // namespace poseidon::apps
