#pragma once

#include <string>

namespace poseidon::test {

/// The project's folder. Where these lie is compiled into one object, so that a compiler's cache
/// knows all others in any clone.
std::string source_folder();
/// Where the build has its programs.
std::string program_folder();

}  // namespace poseidon::test
