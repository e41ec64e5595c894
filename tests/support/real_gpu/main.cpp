// The main program of tests that need a GPU. Without a GPU it prints the reason and exits with code
// 2.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <iostream>

#include "layers/cuda/opener.h"

int main(int count, char** arguments) {
  // With line buffering, the report of earlier cases remains if a case ends the process.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    static_cast<void>(poseidon::layers::cuda::open_library().gpus());
  } catch (const poseidon::ConfigError& error) {
    std::cerr << "no GPU to test on: " << error.what() << '\n';
    return 2;
  }
  return doctest::Context(count, arguments).run();
}
