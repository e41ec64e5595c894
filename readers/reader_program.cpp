#include "readers/reader_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/standard_streams.h"
#include "data/reader_process.h"
#include "readers/sandbox.h"

namespace poseidon::readers {

namespace {

/// Buffers bytes for standard output.
class Output {
 public:
  void write(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBuffer) flush();
    if (bytes.size() > kBuffer) return write_now(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    write_now(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr size_t kBuffer = size_t{64} << 10;

  static void write_now(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw RunError(text("cannot write to the pipe: ", std::strerror(errno)));
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }

  std::vector<std::byte> buffer_;
};

void read_confined(const std::string& path, const ReadAll& read_all) {
  enter_sandbox(path);
  Output output;
  std::optional<data::EntryWriter> writer;
  read_all(path, [&](uint64_t count) -> data::EntryWriter& {
    return writer.emplace([&](std::span<const std::byte> bytes) { output.write(bytes); }, count);
  });
  check(writer.has_value(), "the reader started no list of entries");
  writer->finish();
  output.flush();
}

std::string fault_of(const std::string& path, const ReadAll& read_all) {
  try {
    read_confined(path, read_all);
    return "";
  } catch (const std::bad_alloc&) {
    return text("needs more memory than the limit of ", kMaxMemoryBytes >> 20, " MiB");
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void run_reader(int count, char** arguments, const ReadAll& read_all) {
  open_standard_streams();
  const std::string fault =
      count == 2 ? fault_of(arguments[1], read_all)
                 : "expected one argument, the file or folder; poseidon-data starts this program";
  if (!fault.empty()) std::cerr << fault << std::endl;
  ::_exit(fault.empty() ? 0 : data::kReaderRefused);
}

}  // namespace poseidon::readers
