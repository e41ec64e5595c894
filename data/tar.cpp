#include "data/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"

namespace poseidon::data {

namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMaxMetadata = uint64_t{1} << 20;  // limit for long names and pax headers

using Block = std::array<std::byte, kBlock>;

/// Returns a header field up to its first zero byte.
std::string_view field(const Block& block, size_t at, size_t count) {
  const std::string_view whole(reinterpret_cast<const char*>(block.data()) + at, count);
  return whole.substr(0, std::min(whole.find('\0'), count));
}

/// Parses octal digits between blanks. Returns 0 for blanks only, and nullopt if there are other
/// characters.
std::optional<uint64_t> octal(std::string_view digits) {
  const size_t from = digits.find_first_not_of(' ');
  if (from == std::string_view::npos) return 0;
  digits = digits.substr(from, digits.find_last_not_of(' ') + 1 - from);
  uint64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// Returns the size in an entry's header; nullopt if it is invalid. The field contains octal
/// digits, or (GNU) a big-endian number after a first byte of 0x80.
std::optional<uint64_t> size_of(const Block& block) {
  constexpr size_t kAt = 124, kCount = 12;
  if (block[kAt] != std::byte{0x80}) return octal(field(block, kAt, kCount));
  uint64_t value = 0;
  for (size_t i = 1; i < kCount; ++i) {
    if (value >> 55 != 0) return std::nullopt;
    value = (value << 8) | std::to_integer<uint64_t>(block[kAt + i]);
  }
  return value;
}

bool checksum_holds(const Block& block) {
  constexpr size_t kAt = 148, kCount = 8;
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i)
    sum += i >= kAt && i < kAt + kCount ? ' ' : std::to_integer<uint64_t>(block[i]);
  return octal(field(block, kAt, kCount)) == sum;
}

bool is_zero(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string own_name(const Block& block) {
  const std::string_view name = field(block, 0, 100);
  const bool ustar = field(block, 257, 5) == "ustar";
  const std::string_view prefix = ustar ? field(block, 345, 155) : std::string_view();
  return prefix.empty() ? std::string(name) : text(prefix, "/", name);
}

/// Name and size from extended headers (pax, GNU). They replace those in the header of the next
/// entry.
struct Override {
  std::string name;
  std::optional<uint64_t> bytes;
};

/// Returns the kind of an entry from its type flag and its name; nullopt for devices, pipes and
/// headers that describe other entries.
std::optional<TarKind> kind_of(char type, const std::string& name) {
  if (type == '5') return TarKind::kFolder;
  if (type == '1' || type == '2') return TarKind::kLink;
  if (type != '0' && type != '\0' && type != '7') return std::nullopt;
  // The oldest format has no type for folders. A slash at the end of the name marks a folder.
  return name.ends_with('/') ? TarKind::kFolder : TarKind::kFile;
}

class TarLister {
 public:
  TarLister(uint64_t archive_bytes, const ReadAt& read, const std::string& name)
      : archive_bytes_(archive_bytes), read_(read), name_(name) {}

  std::vector<TarEntry> list() {
    Block block;
    while (next_header(block)) entry(block);
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw RunError(text(name_, ": byte ", at_, ": ", what));
  }

  bool next_header(Block& block) {
    if (at_ == archive_bytes_ && at_ > 0) return false;  // some writers omit the end marks
    if (archive_bytes_ - at_ < kBlock) fail("the tar archive is truncated within a header");
    read_(at_, block);
    if (is_zero(block)) return false;
    if (!checksum_holds(block))
      fail("a header's checksum does not match: damaged, or not a tar archive");
    return true;
  }

  void entry(const Block& block) {
    const char type = static_cast<char>(block[156]);
    const bool describes = type == 'x' || type == 'L' || type == 'g' || type == 'K';
    const std::optional<uint64_t> own_bytes = size_of(block);
    if (!own_bytes) fail("a header's size is not a number");
    const uint64_t bytes = describes ? *own_bytes : override_.bytes.value_or(*own_bytes);
    const uint64_t content = at_ + kBlock;
    if (bytes > archive_bytes_ - content)
      fail(text("an entry of ", bytes, " bytes does not fit the archive of ", archive_bytes_,
                ": the archive is truncated"));
    if (type == 'L') override_.name = long_name(metadata(content, bytes));
    if (type == 'x') read_pax(metadata(content, bytes));
    const std::string name = override_.name.empty() ? own_name(block) : override_.name;
    if (const auto kind = kind_of(type, name)) entries_.push_back({name, content, bytes, *kind});
    if (!describes) override_ = {};
    // The last block may be short if an archive has no end marks.
    at_ = std::min(archive_bytes_, content + (bytes + kBlock - 1) / kBlock * kBlock);
  }

  std::string metadata(uint64_t content, uint64_t bytes) const {
    if (bytes > kMaxMetadata) fail(text("a header of ", bytes, " bytes is too large"));
    std::string out(bytes, '\0');
    read_(content, std::as_writable_bytes(std::span(out)));
    return out;
  }

  static std::string long_name(const std::string& content) {
    return content.substr(0, content.find('\0'));
  }

  /// Reads lines of "LENGTH KEY=VALUE\n". The length counts the whole line.
  void read_pax(std::string_view content) {
    while (!content.empty()) {
      size_t length = 0;
      const auto result = std::from_chars(content.data(), content.data() + content.size(), length);
      const size_t digits = static_cast<size_t>(result.ptr - content.data());
      if (result.ec != std::errc() || length > content.size() || length < digits + 2)
        fail("a pax header is damaged");
      const std::string_view line = content.substr(digits + 1, length - digits - 2);
      const size_t equals = std::min(line.find('='), line.size());
      set_pax(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
      content.remove_prefix(length);
    }
  }

  void set_pax(std::string_view key, std::string_view value) {
    if (key == "path") override_.name = value;
    if (key != "size") return;
    uint64_t bytes = 0;
    const auto result = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (result.ec != std::errc() || result.ptr != value.data() + value.size())
      fail("a pax header's size is not a number");
    override_.bytes = bytes;
  }

  const uint64_t archive_bytes_;
  const ReadAt& read_;
  const std::string& name_;
  uint64_t at_ = 0;
  Override override_;
  std::vector<TarEntry> entries_;
};

}  // namespace

std::vector<TarEntry> list_tar(uint64_t archive_bytes, const ReadAt& read,
                               const std::string& name) {
  return TarLister(archive_bytes, read, name).list();
}

}  // namespace poseidon::data
