#include "layers/cpu/backend.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/isa.h"
#include "layers/cpu/isa_backend.h"

namespace poseidon::layers::cpu {

namespace {

struct Built {
  Isa isa;
  Backend (*make)(int threads, DataType activations);
};
/// The backends of built_isas(). third_party/instruction_sets.cmake sets this list.
constexpr Built kBuilt[] = {POSEIDON_ENTRIES};

}  // namespace

Backend make_cpu_backend(int threads, DataType activations) {
  const auto* built = std::ranges::find(kBuilt, isa(), &Built::isa);
  check(built != std::end(kBuilt), "the build contains kernels of this instruction set");
  return built->make(threads, activations);
}

}  // namespace poseidon::layers::cpu
