#include "data/entry_pipe.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

using Entries = std::vector<std::pair<std::string, Bytes>>;

Bytes written(const Entries& entries, uint64_t count) {
  Bytes out;
  EntryWriter writer(
      [&](std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); },
      count);
  for (const auto& [key, value] : entries) writer.add(as_bytes(key), value);
  writer.finish();
  return out;
}

Entries read(const Bytes& bytes) {
  size_t index = 0;
  EntryReader reader([&](std::span<std::byte> out) {
    if (out.size() > bytes.size() - index) throw RunError("cut");
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(index), out.size(), out.begin());
    index += out.size();
  });
  Entries entries;
  std::string key;
  Bytes value;
  while (reader.next(key, value)) entries.emplace_back(key, value);
  return entries;
}

std::string fault(const Bytes& bytes) {
  return error_of<RunError>([&] { read(bytes); });
}

}  // namespace

TEST_CASE("entries: all written entries are read, with and without a known count") {
  const Entries entries{
      {"a", made::bytes_of("one")}, {"b", {}}, {"c\xFF", made::bytes_of("three")}};
  CHECK(read(written(entries, 3)) == entries);
  CHECK(read(written(entries, 0)) == entries);
  CHECK(read(written({}, 0)).empty());
}

TEST_CASE("entries: a value that needs several reads and the small value after it are read") {
  Bytes large((size_t{5} << 20) / 2);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7 >> 3);
  const Entries entries{{"a", large}, {"b", made::bytes_of("small")}};
  CHECK(read(written(entries, 2)) == entries);
}

TEST_CASE("entries: truncation at any byte and wrong counts, key order or sizes are refused") {
  const Entries entries{{"a", made::bytes_of("one")}, {"b", made::bytes_of("two")}};
  const Bytes whole = written(entries, 2);
  for (size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK(fault(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length))) == "cut");
  }
  CHECK(fault(made::bytes_of("something else altogether")) ==
        "expected entries of a reader program, got other bytes");
  CHECK(fault(written(entries, 3)) == "expected 3 entries, got 2");
  CHECK(fault(written(entries, 1)) == "expected 1 entries, got more");
  CHECK(fault(written({{"b", {}}, {"a", {}}}, 0)) ==
        "expected keys in ascending order: the index is damaged");
  CHECK(fault(written({{"a", {}}, {"a", {}}}, 0)) ==
        "expected keys in ascending order: the index is damaged");
  Bytes huge = whole;
  huge[23] = std::byte{0x7F};
  CHECK(fault(huge).find("expected a key of 1 to 4096 bytes and a value of at most 268435456") ==
        0);
  Bytes fewer = whole;
  fewer[fewer.size() - 8] = std::byte{1};
  CHECK(fault(fewer) == "expected 2 entries, got 2");
}

TEST_CASE("entries: the writer refuses keys that the reader refuses") {
  CHECK(error_of<RunError>([] {
          written({{"", {}}}, 0);
        }) == "expected keys of 1 to 4096 bytes, got one of 0");
  CHECK(error_of<RunError>([] {
          written({{std::string(4097, 'k'), {}}}, 0);
        }) == "expected keys of 1 to 4096 bytes, got one of 4097");
}
