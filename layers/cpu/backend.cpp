#include "layers/cpu/backend.h"

#include "core/isa.h"
#include "layers/cpu/isa_backend.h"

namespace poseidon::layers::cpu {

Backend make_cpu_backend(int threads, DataType activations) {
#ifdef POSEIDON_PORTABLE
  switch (isa()) {
    case Isa::kX86V4: return v4::make_backend(threads, activations);
    case Isa::kX86V3: return v3::make_backend(threads, activations);
    default: return v2::make_backend(threads, activations);
  }
#else
  return native::make_backend(threads, activations);
#endif
}

}  // namespace poseidon::layers::cpu
