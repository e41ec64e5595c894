#include "core/isa.h"

/// What is tested here was compiled for one level, whatever the processor's best is.
[[maybe_unused]] static const bool kChosen = (poseidon::choose_isa(POSEIDON_TEST_ISA), true);
