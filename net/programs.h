#pragma once

#include <optional>

#include "net/arena.h"
#include "net/network.h"
#include "net/program.h"

namespace poseidon::net {

/// What a net runs: the program of training, and that of tests where they differ, in one block of
/// memory, of which each uses all while it runs. A net that does not train has one program, that
/// of the network it is given.
class Programs {
 public:
  Programs(const Network& network, layers::LayerFactory& factory, const Program::Options& options);

  /// Throws OutOfMemory, naming the layer that wants most.
  void take_memory();

  Program& main() { return main_; }
  const Program& main() const { return main_; }
  /// Null where tests run the main program.
  Program* tests() { return tests_ ? &*tests_ : nullptr; }
  const Program* tests() const { return tests_ ? &*tests_ : nullptr; }
  /// Where batches come to, for both.
  Program::Input input() const;

  /// Of activations, their gradients and workspaces, after reuse, and of scratch.
  size_t arena_bytes() const { return arena_.bytes(); }
  size_t scratch_bytes() const;

 private:
  [[noreturn]] void fail_to_take() const;

  const Network& network_;
  Arena arena_;
  Program main_;
  std::optional<Program> tests_;
};

}  // namespace poseidon::net
