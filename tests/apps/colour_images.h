#pragma once

#include <filesystem>
#include <string>

#include "tests/trainer/tiny_job.h"

namespace poseidon::apps {

/// A network of one layer, for images of 6 x 6 in two classes.
inline constexpr const char* kColourNetwork = R"({
  "name": "tiny", "input": {"channels": 3, "height": 6, "width": 6},
  "layers": [
    {"name": "ip", "type": "linear", "outputs": 2, "weight_filler": {"type": "xavier"}},
    {"name": "loss", "type": "softmax_loss"}]})";

/// Writes two classes of images of one colour each; returns them as a job's dataset.
inline std::string colour_images(const std::filesystem::path& folder) {
  for (const char* kind : {"a", "b"}) {
    std::filesystem::create_directories(folder / kind);
    for (char number = '0'; number < '8'; ++number)
      trainer::write_text(folder / kind / (std::string(1, number) + ".ppm"),
                          "P6\n6 6\n255\n" + std::string(108, *kind));
  }
  return R"({"type": "images", "path": ")" + folder.string() + R"("})";
}

}  // namespace poseidon::apps
