#include "layers/cuda/opener.h"

#include <doctest/doctest.h>

#include "tests/support/error_of.h"

using namespace poseidon;
using layers::cuda::Library;
using layers::cuda::open_library;

namespace {

std::string met(const char* name) { return std::string(POSEIDON_MET_LIBRARIES) + "/" + name; }

std::string error_with(const char* name) {
  return error_of<ConfigError>([&] { open_library(met(name)); });
}

}  // namespace

TEST_CASE("GPU library: a build without the library reports this") {
  CHECK(error_of<ConfigError>([] { open_library("/nowhere/bin"); }) ==
        "this build has no GPU library: there is no /nowhere/lib/libposeidon_cuda.so (docs/gpu.md "
        "describes how to build it)");
}

TEST_CASE("GPU library: the message names all missing shared libraries") {
  CHECK(error_with("lacks") ==
        "cannot load the GPU library: the loader does not find libmet_absent.so, "
        "libmet_absent_too.so; install cuDNN 9, and cuBLASLt and nvrtc of CUDA 13, or add their "
        "folders to LD_LIBRARY_PATH (docs/gpu.md)");
}

TEST_CASE("GPU library: a library of another build or program is rejected") {
  const std::string other = error_with("other_build");
  CHECK_MESSAGE(other.find("belongs to another build: expected ") != std::string::npos, other);
  CHECK(other.ends_with(", got 0.0.1, another compiler"));
  const std::string stranger = error_with("stranger");
  CHECK_MESSAGE(stranger.find(" is not Poseidon's GPU library: ") != std::string::npos, stranger);
}

TEST_CASE("GPU library: the program catches the library's exceptions by their type") {
  const Library& library = open_library(met("throws"));
  CHECK(error_of<ConfigError>([&] { library.gpus(); }) == "from the library: config");
  CHECK(error_of<OutOfMemory>([&] { library.make_backend({.index = 0, .settings = {}}); }) ==
        "from the library: memory");
  CHECK(error_of<RunError>([&] { library.make_backend({.index = 0, .settings = {}}); }) ==
        "from the library: memory");
  CHECK(error_of<LogicError>([&] { library.make_backend({.index = 1, .settings = {}}); }) ==
        "from the library: logic");
  CHECK(error_of<RunError>([&] {
          try {
            library.gpus();
          } catch (const ConfigError&) {
          }
        }) == "");
}

#ifdef POSEIDON_WITH_CUDA
TEST_CASE("GPU library: this build's library opens and lists the GPUs or the reason for none") {
  const Library& library = open_library();
  const std::string why = error_of<ConfigError>([&] { library.gpus(); });
  CAPTURE(why);
  if (why.empty()) {
    CHECK_FALSE(library.gpus().gpus.empty());
  } else {
    CHECK(why.starts_with("this machine"));
    CHECK(why.find('\n') == std::string::npos);
    CHECK(error_of<ConfigError>([&] { library.make_backend({.index = 0, .settings = {}}); }) ==
          why);
  }
}
#endif
