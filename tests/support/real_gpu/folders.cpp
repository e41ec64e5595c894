#include "tests/support/folders.h"

#include <filesystem>

/// The archive contains this program. Its bits must not depend on the folder of the build, so it
/// contains no paths and derives them from its own.
namespace poseidon::test {

std::string program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

/// A preset builds the program in build/PRESET/bin of the sources.
std::string source_folder() {
  const std::filesystem::path program = program_folder();
  return program.parent_path().parent_path().parent_path().string();
}

}  // namespace poseidon::test
