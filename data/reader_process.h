#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/file.h"

namespace poseidon::data {

/// A child process that reads a file and writes the data to a pipe. A damaged file may crash the
/// library that reads it. Then only this process ends. The destructor kills the process.
class ReaderProcess {
 public:
  /// Starts `program` with the arguments `input` and `more`. Throws ConfigError if the program does
  /// not exist. If the program writes nothing for `stall_limit`, read() kills it and throws
  /// RunError.
  ReaderProcess(std::filesystem::path program, const std::filesystem::path& input,
                std::span<const std::string> more, std::chrono::milliseconds stall_limit);
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  /// Fills `out` with the next bytes from the program. If the output ends before `out` is full,
  /// throws RunError with one line that states how the program ended.
  void read(std::span<std::byte> out);

 private:
  void wait_for_bytes();
  void read_errors();
  std::string how_it_ended();
  void end();

  std::filesystem::path program_;
  std::chrono::milliseconds stall_limit_;
  pid_t process_ = -1;
  Descriptor bytes_, errors_;
  std::string error_output_;  ///< the last bytes that the program wrote to standard error
};

/// Exit code of a reader program that has reported a defect of the file in one line.
inline constexpr int kReaderRefused = 2;

}  // namespace poseidon::data
