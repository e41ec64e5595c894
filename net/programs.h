#pragma once

#include <optional>

#include "net/arena.h"
#include "net/network.h"
#include "net/program.h"

namespace poseidon::net {

/// The programs that a net runs: the training program, and a test program if the test network
/// differs. Both use one arena, because their passes never overlap. A net that does not train has
/// only a main program, for the network that it receives.
class Programs {
 public:
  Programs(const Network& network, layers::LayerFactory& factory, const Program::Options& options);

  /// Allocates the arena and binds its memory to all calls. Throws OutOfMemory that names the
  /// layer, or the input, with the largest piece.
  void allocate_memory();

  Program& main() { return main_; }
  const Program& main() const { return main_; }
  /// The test program; null if tests run the main program.
  Program* tests() { return tests_ ? &*tests_ : nullptr; }
  const Program* tests() const { return tests_ ? &*tests_ : nullptr; }
  /// The input tensors, which both programs share. The labels are null only if neither program
  /// reads them.
  Program::Input input() const;

  /// Bytes of the arena: activations, their gradients, workspaces and scratch memory, with memory
  /// reuse.
  size_t arena_bytes() const { return arena_.bytes(); }
  size_t scratch_bytes() const;

 private:
  [[noreturn]] void throw_out_of_memory() const;

  const Network& network_;
  Arena arena_;
  Program main_;
  std::optional<Program> tests_;
};

}  // namespace poseidon::net
