#include "data/entry_pipe.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::data {

namespace {

constexpr std::string_view kEntryMagic = "PSDNENTR";

template <class Number>
void put_number(Number value, std::byte* at) {
  for (size_t i = 0; i < sizeof value; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <class Number>
Number number_at(const std::byte* at) {
  Number value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<Number>(static_cast<Number>(at[i]) << (8 * i));
  return value;
}

}  // namespace

EntryWriter::EntryWriter(Write write, uint64_t count) : write_(std::move(write)) {
  std::array<std::byte, 8> number;
  put_number(count, number.data());
  write_(as_bytes(kEntryMagic));
  write_(number);
}

void EntryWriter::add(std::span<const std::byte> key, std::span<const std::byte> value) {
  if (key.empty() || key.size() > kMaxKeyBytes)
    throw RunError(text("expected keys of 1 to ", kMaxKeyBytes, " bytes, got one of ", key.size()));
  if (value.size() > kMaxValueBytes)
    throw RunError(
        text("expected values of at most ", kMaxValueBytes, " bytes, got one of ", value.size()));
  std::array<std::byte, 8> lengths;
  put_number(static_cast<uint32_t>(key.size()), lengths.data());
  put_number(static_cast<uint32_t>(value.size()), lengths.data() + 4);
  write_(lengths);
  write_(key);
  write_(value);
  ++done_;
}

void EntryWriter::finish() {
  std::array<std::byte, 16> end{};
  put_number(done_, end.data() + 8);
  write_(end);
}

EntryReader::EntryReader(Read read) : read_(std::move(read)) {
  std::array<std::byte, 16> beginning;
  read_(beginning);
  if (std::memcmp(beginning.data(), kEntryMagic.data(), kEntryMagic.size()) != 0)
    throw RunError("expected entries of a reader program, got other bytes");
  count_ = number_at<uint64_t>(beginning.data() + 8);
  if (count_ > INT64_MAX) throw RunError(text("expected fewer than 2^63 entries, got ", count_));
}

bool EntryReader::next(std::string& key, std::vector<std::byte>& value) {
  std::array<std::byte, 8> lengths;
  read_(lengths);
  const auto key_bytes = number_at<uint32_t>(lengths.data());
  const auto value_bytes = number_at<uint32_t>(lengths.data() + 4);
  if (key_bytes == 0 && value_bytes == 0) {
    check_end();
    return false;
  }
  if (count_ != 0 && done_ == count_)
    throw RunError(text("expected ", count_, " entries, got more"));
  if (key_bytes == 0 || key_bytes > kMaxKeyBytes || value_bytes > kMaxValueBytes)
    throw RunError(text("expected a key of 1 to ", kMaxKeyBytes, " bytes and a value of at most ",
                        kMaxValueBytes, ", got ", key_bytes, " and ", value_bytes));
  key.resize(key_bytes);
  read_(std::as_writable_bytes(std::span(key)));
  if (key <= last_key_) throw RunError("expected keys in ascending order: the index is damaged");
  last_key_ = key;
  read_value(value_bytes, value);
  ++done_;
  return true;
}

/// Reads a value of `bytes` bytes. Allocates memory only as the bytes arrive, because the announced
/// size may be wrong.
void EntryReader::read_value(size_t bytes, std::vector<std::byte>& value) {
  constexpr size_t kStep = size_t{1} << 20;
  for (size_t done = 0; done < bytes;) {
    const size_t end = std::min(bytes, done + kStep);
    if (value.size() < end) value.resize(end);
    read_(std::span(value).subspan(done, end - done));
    done = end;
  }
  value.resize(bytes);
}

void EntryReader::check_end() {
  std::array<std::byte, 8> number;
  read_(number);
  const auto all = number_at<uint64_t>(number.data());
  if (all != done_ || (count_ != 0 && all != count_))
    throw RunError(text("expected ", count_ != 0 ? count_ : all, " entries, got ", done_));
}

}  // namespace poseidon::data
