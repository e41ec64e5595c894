#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/file.h"

namespace poseidon::data {

/// A program that reads a file with a library that damage may crash, and writes what it reads to a
/// pipe. It ends with its owner.
class ReaderProcess {
 public:
  /// `more` are arguments behind the input. Throws ConfigError when there is no such program. A
  /// program that writes nothing for `stall_limit` counts as stuck.
  ReaderProcess(std::filesystem::path program, const std::filesystem::path& input,
                std::span<const std::string> more, std::chrono::milliseconds stall_limit);
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  /// Fills `out` with what the program writes next. Throws RunError, which tells in one line how it
  /// ended, where it writes no more.
  void read(std::span<std::byte> out);

 private:
  void wait_for_bytes();
  void hear_errors();
  std::string how_it_ended();
  void end();

  std::filesystem::path program_;
  std::chrono::milliseconds stall_limit_;
  pid_t process_ = -1;
  Descriptor bytes_, errors_;
  std::string said_;  ///< the end of what it wrote to standard error
};

/// The exit code of a program that has said what is wrong with the file in one line.
inline constexpr int kReaderRefused = 2;

}  // namespace poseidon::data
