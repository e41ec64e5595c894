#include "layers/cuda/opener.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "core/name_list.h"
#include "core/shell_word.h"

namespace poseidon::layers::cuda {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libposeidon_cuda.so";

fs::path find_file(const fs::path& folder) {
  for (const fs::path& file : {folder / ".." / "lib" / kFileName, folder / kFileName})
    if (std::error_code error; fs::exists(file, error)) return file.lexically_normal();
  throw ConfigError(text("this build has no GPU library: there is no ",
                         (folder / ".." / "lib" / kFileName).lexically_normal().string(),
                         " (docs/gpu.md describes how to build it)"));
}

/// The dynamic loader's message about its last error.
std::string loader_text() {
  const char* said = dlerror();
  return said == nullptr ? "unknown error" : said;
}

/// The shared libraries that `file` needs and the dynamic loader does not find, according to
/// ldd. dlopen() names only the first one.
std::vector<std::string> missing_libraries(const fs::path& file) {
  const std::string command = "ldd " + quoted_for_shell(file.string()) + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> missing;
  std::array<char, 4096> line{};
  while (output != nullptr && std::fgets(line.data(), line.size(), output.get()) != nullptr) {
    const std::string_view words = line.data();
    const size_t arrow = words.find(" => not found"), name = words.find_first_not_of(" \t");
    if (arrow != words.npos) missing.emplace_back(words.substr(name, arrow - name));
  }
  return missing;
}

void* open_file(const fs::path& file) {
  // RTLD_NODELETE: the library's objects may outlive any handle, and their code is in the library.
  void* opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened != nullptr) return opened;
  const std::string why = loader_text();
  const std::vector<std::string> missing = missing_libraries(file);
  throw ConfigError(text("cannot load the GPU library: ",
                         missing.empty() ? why : "the loader does not find " + name_list(missing),
                         "; install cuDNN 9, and cuBLASLt and nvrtc of CUDA 13, or add their "
                         "folders to LD_LIBRARY_PATH (docs/gpu.md)"));
}

template <class Entry>
Entry entry_of(void* opened, const fs::path& file, const char* name) {
  void* found = dlsym(opened, name);
  if (found == nullptr)
    throw ConfigError(text(file.string(), " is not Poseidon's GPU library: ", loader_text()));
  return reinterpret_cast<Entry>(found);
}

}  // namespace

const Library& open_library(const fs::path& folder) {
  const fs::path file = find_file(folder);
  void* opened = open_file(file);
  const std::string expected = build_of(POSEIDON_VERSION);
  const std::string got = entry_of<BuildEntry>(opened, file, kBuildEntry)();
  if (got != expected)
    throw ConfigError(
        text(file.string(), " belongs to another build: expected ", expected, ", got ", got));
  return *entry_of<LibraryEntry>(opened, file, kLibraryEntry)();
}

const Library& open_library() {
  return open_library(fs::read_symlink("/proc/self/exe").parent_path());
}

}  // namespace poseidon::layers::cuda
