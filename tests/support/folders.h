#pragma once

#include <string>

namespace poseidon::test {

/// Path of the source folder. Both paths are compiled into one object file only, so that a compiler
/// cache can reuse all other object files in any clone. test_layers_gpu contains no paths and
/// derives both from its own.
std::string source_folder();
/// Folder of the programs that the build made.
std::string program_folder();

}  // namespace poseidon::test
