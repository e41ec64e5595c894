#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/data/made_files.h"
#include "tests/readers/made_database.h"
#include "tests/support/folders.h"

namespace poseidon::readers {

/// The result of reading a damaged database.
struct Outcome {
  int64_t samples = 0, corrupt = 0;
  std::string error;  ///< "" if all entries were read
  bool crashed() const { return error.find(" crashed by signal ") != std::string::npos; }
  bool stuck() const {
    return error.find(" sent nothing for ") != std::string::npos ||
           error.find("CPU time limit") != std::string::npos;
  }
};

/// Damages one of the database's files in a way that the seed selects.
class Damager {
 public:
  explicit Damager(uint64_t seed) : random_(seed) {}

  void damage(const std::filesystem::path& path) {
    const std::filesystem::path file = pick(path);
    data::made::Bytes bytes = data::made::read(file);
    if (bytes.empty()) return;
    switch (below(5)) {
      case 0: bytes.resize(below(bytes.size())); break;
      case 1: fill(bytes, below(2) == 0 ? 0x00 : 0xFF); break;
      case 2: put_number(bytes); break;
      case 3: copy_run(bytes); break;
      default: flip(bytes, 1 + below(16)); break;
    }
    data::made::write(file, bytes);
  }

 private:
  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  std::filesystem::path pick(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return path;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files.at(below(files.size()));
  }

  void flip(data::made::Bytes& bytes, size_t times) {
    for (size_t i = 0; i < times; ++i)
      bytes[below(bytes.size())] ^= static_cast<std::byte>(1 + below(255));
  }
  void fill(data::made::Bytes& bytes, int value) {
    const size_t begin = below(bytes.size()), count = 1 + below(256);
    for (size_t i = begin; i < std::min(bytes.size(), begin + count); ++i)
      bytes[i] = static_cast<std::byte>(value);
  }
  /// Writes a small, a huge or a negative integer at a random position.
  void put_number(data::made::Bytes& bytes) {
    constexpr uint64_t kNumbers[] = {1, 0xFFFF, 0x7FFFFFFF, ~uint64_t{0}, uint64_t{1} << 40};
    const size_t begin = below(bytes.size()) & ~size_t{1}, width = size_t{1} << below(4);
    const uint64_t number = kNumbers[below(5)];
    for (size_t i = 0; i < width && begin + i < bytes.size(); ++i)
      bytes[begin + i] = static_cast<std::byte>(number >> (8 * i));
  }
  void copy_run(data::made::Bytes& bytes) {
    const size_t count = 1 + below(std::min<size_t>(bytes.size(), 4096));
    const size_t from = below(bytes.size() - count + 1), to = below(bytes.size() - count + 1);
    const data::made::Bytes run(bytes.begin() + static_cast<ptrdiff_t>(from),
                                bytes.begin() + static_cast<ptrdiff_t>(from + count));
    std::copy(run.begin(), run.end(), bytes.begin() + static_cast<ptrdiff_t>(to));
  }

  std::mt19937_64 random_;
};

inline Outcome read_all(const std::filesystem::path& path, std::chrono::milliseconds stall_limit) {
  Outcome outcome;
  std::string name;
  data::Sample sample;
  try {
    const auto stream = data::open_database(
        made::kType, path, {.programs = test::program_folder(), .stall_limit = stall_limit});
    for (bool more = true; more;) try {
        more = stream->next(name, sample);
        if (more) ++outcome.samples;
      } catch (const data::CorruptSample&) {
        ++outcome.corrupt;
      }
  } catch (const RunError& error) {
    outcome.error = error.what();
  }
  return outcome;
}

/// Copies the database `whole` to `path`, damages the copy and reads it.
inline Outcome read_damaged(const std::filesystem::path& whole, const std::filesystem::path& path,
                            uint64_t seed) {
  std::filesystem::remove_all(path);
  std::filesystem::copy(whole, path, std::filesystem::copy_options::recursive);
  Damager(seed).damage(path);
  return read_all(path, std::chrono::seconds(20));
}

/// Whether an error is one line that starts with the database's path and contains a reason.
inline bool is_clear(const std::string& error, const std::filesystem::path& path) {
  return error.starts_with(path.string() + ": ") && error.size() > path.string().size() + 8 &&
         error.find('\n') == std::string::npos;
}

}  // namespace poseidon::readers
