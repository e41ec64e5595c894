#include "core/isa.h"

/// Selects the instruction-set level for which these tests are compiled, even if the processor
/// supports a higher one.
[[maybe_unused]] static const bool kChosen = (poseidon::choose_isa(POSEIDON_TEST_ISA), true);
