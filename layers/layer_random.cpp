#include "layers/layer_random.h"

namespace poseidon::layers {

// FNV-1a: a hash that stays the same on every machine and in every version.
uint64_t random_key(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001B3u;
  }
  return hash;
}

}  // namespace poseidon::layers
