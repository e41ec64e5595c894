#include "tests/support/folders.h"

namespace poseidon::test {

std::string source_folder() { return POSEIDON_SOURCE_DIR; }
std::string program_folder() { return POSEIDON_BINARY_DIR; }

}  // namespace poseidon::test
