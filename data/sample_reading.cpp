#include "data/sample_reading.h"

#include "data/image.h"

namespace poseidon::data {

void read_image_file(const std::filesystem::path& path, std::vector<std::byte>& out) {
  read_for_sample([] { return std::string(); }, [&] { read_file(path, kMaxEncodedBytes, out); });
}

}  // namespace poseidon::data
