#pragma once

#include "core/error.h"

namespace poseidon::net {

/// Memory for activations cannot be had, of which a smaller batch would take less.
class BatchTooLarge : public OutOfMemory {
 public:
  using OutOfMemory::OutOfMemory;
};

}  // namespace poseidon::net
