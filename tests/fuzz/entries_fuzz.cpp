// Arbitrary bytes as the output of a database reader: the reader throws RunError, or returns
// entries within their limits, sorted by key. If the output ends properly, writing the entries
// again gives the same bytes.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "data/entry_pipe.h"

namespace {

using namespace poseidon;
using namespace poseidon::data;

/// The input as a byte stream.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  void read(std::span<std::byte> out) {
    if (out.size() > size_ - done_) throw RunError("cut");
    if (!out.empty()) std::memcpy(out.data(), data_ + done_, out.size());
    done_ += out.size();
  }
  bool begins_with(std::span<const std::byte> bytes) const {
    return bytes.size() <= size_ && std::memcmp(data_, bytes.data(), bytes.size()) == 0;
  }

 private:
  const uint8_t* data_;
  size_t size_, done_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  try {
    EntryReader reader([&](std::span<std::byte> out) { input.read(out); });
    std::vector<std::byte> again;
    EntryWriter writer([&](auto bytes) { again.insert(again.end(), bytes.begin(), bytes.end()); },
                       reader.count());
    std::string key, last;
    std::vector<std::byte> value;
    while (reader.next(key, value)) {
      if (key <= last) std::abort();
      last = key;
      writer.add(as_bytes(key), value);
    }
    writer.finish();
    if (!input.begins_with(again)) std::abort();
  } catch (const RunError&) {
  }
  return 0;
}
