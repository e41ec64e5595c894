#include "data/tar.h"

#include <doctest/doctest.h>

#include <cstring>

#include "core/error.h"
#include "data/gzip.h"
#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;
using made::Bytes;

namespace {

std::vector<TarEntry> list(const Bytes& archive) {
  const ReadAt read = [&](uint64_t offset, std::span<std::byte> out) {
    REQUIRE(offset + out.size() <= archive.size());
    std::memcpy(out.data(), archive.data() + offset, out.size());
  };
  return list_tar(archive.size(), read, "a.tar");
}

std::string content(const Bytes& archive, const TarEntry& entry) {
  return {reinterpret_cast<const char*>(archive.data()) + entry.offset, entry.bytes};
}

}  // namespace

TEST_CASE("tar: files, folders and links are listed with their offsets") {
  Bytes archive;
  made::append_tar(archive, "train/", {}, '5');
  made::append_tar(archive, "train/cat/1.jpg", made::bytes_of("one"));
  made::append_tar(archive, "link", {}, '2');
  made::append_tar(archive, "train/dog/2.jpg", made::bytes_of(std::string(600, 'x')));
  archive.resize(archive.size() + 1024);
  const auto entries = list(archive);
  REQUIRE(entries.size() == 4);
  CHECK(entries[0].kind == TarKind::kFolder);
  CHECK(entries[1].name == "train/cat/1.jpg");
  CHECK(entries[1].kind == TarKind::kFile);
  CHECK(content(archive, entries[1]) == "one");
  CHECK(entries[2].kind == TarKind::kLink);
  CHECK(content(archive, entries[3]) == std::string(600, 'x'));
}

TEST_CASE("tar: long names are read in GNU and pax form") {
  const std::string name = std::string(150, 'd') + "/1.jpg";
  Bytes archive;
  made::append_tar(archive, "././@LongLink", made::bytes_of(name + std::string(1, '\0')), 'L');
  made::append_tar(archive, name, made::bytes_of("gnu"));
  const std::string line = " path=" + name + "\n";
  made::append_tar(archive, "pax", made::bytes_of(std::to_string(line.size() + 3) + line), 'x');
  made::append_tar(archive, "short", made::bytes_of("pax"));
  made::append_tar(archive, "after", made::bytes_of("!"));
  const auto entries = list(archive);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == name);
  CHECK(entries[1].name == name);
  CHECK(content(archive, entries[1]) == "pax");
  CHECK(entries[2].name == "after");
}

TEST_CASE("tar: a damaged archive is refused with the byte offset") {
  Bytes archive;
  made::append_tar(archive, "a", made::bytes_of("one"));
  made::append_tar(archive, "b", made::bytes_of("two"));
  Bytes flipped = archive;
  flipped[1024] ^= std::byte{1};
  CHECK_THROWS_WITH_AS(
      list(flipped),
      "a.tar: byte 1024: a header's checksum does not match: damaged, or not a tar "
      "archive",
      RunError);
  Bytes cut(archive.begin(), archive.begin() + 1100);
  CHECK_THROWS_WITH_AS(list(cut), "a.tar: byte 1024: the tar archive is truncated within a header",
                       RunError);
  Bytes short_content(archive.begin(), archive.begin() + 514);
  CHECK_THROWS_WITH_AS(list(short_content),
                       "a.tar: byte 0: an entry of 3 bytes does not fit the archive of 514: the "
                       "archive is truncated",
                       RunError);
  CHECK_THROWS_AS(list({}), RunError);
  Bytes pax;
  made::append_tar(pax, "pax", made::bytes_of("99999999 path=x\n"), 'x');
  CHECK_THROWS_WITH_AS(list(pax), "a.tar: byte 0: a pax header is damaged", RunError);
}

TEST_CASE("gzip: data survive a round trip; truncated, altered and oversized data are refused") {
  const Bytes plain(100000, std::byte{42});
  const Bytes packed = made::gzipped(plain);
  CHECK(is_gzip(packed));
  CHECK(inflate(packed, plain.size(), "f") == plain);
  Bytes two = packed;
  two.insert(two.end(), packed.begin(), packed.end());
  CHECK(inflate(two, 2 * plain.size(), "f").size() == 2 * plain.size());
  CHECK_THROWS_WITH(inflate(packed, 99999, "f"),
                    doctest::Contains("expected at most 99999 bytes when decompressed, got more"));
  Bytes cut(packed.begin(), packed.end() - 3);
  CHECK_THROWS_WITH(inflate(cut, plain.size(), "f"), doctest::Contains("the file is truncated"));
  Bytes altered = packed;
  altered[altered.size() - 6] ^= std::byte{1};
  CHECK_THROWS_WITH(inflate(altered, plain.size(), "f"), doctest::Contains("not valid gzip data"));
}
