#include "comm/wire/kernels/wire_kernels.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/isa.h"

namespace poseidon::comm {

namespace {

struct Built {
  Isa isa;
  WireKernels (*kernels)();
};
/// The kernels of built_isas(). third_party/instruction_sets.cmake sets this list.
constexpr Built kBuilt[] = {POSEIDON_ENTRIES};

}  // namespace

WireKernels wire_kernels() {
  const auto* built = std::ranges::find(kBuilt, isa(), &Built::isa);
  check(built != std::end(kBuilt), "the build contains kernels of this instruction set");
  return built->kernels();
}

}  // namespace poseidon::comm
