#include "net/programs.h"

#include <algorithm>

#include "core/error.h"
#include "core/memory.h"
#include "net/at.h"

namespace poseidon::net {

Programs::Programs(const Network& network, layers::LayerFactory& factory,
                   const Program::Options& options)
    : network_(network), main_(network, factory, options, arena_) {
  if (options.training && &network.in_test() != &network) {
    Program::Options of_tests = options;
    of_tests.training = false;
    of_tests.trained = &main_;
    tests_.emplace(network.in_test(), factory, of_tests, arena_);
  }
  arena_.lay_out();
}

void Programs::allocate_memory() {
  try {
    arena_.allocate(main_.factory().device());
  } catch (const OutOfMemory&) {
    throw_out_of_memory();
  }
  main_.bind();
  if (tests_) tests_->bind();
}

void Programs::throw_out_of_memory() const {
  const int piece = arena_.largest();
  const Arena::Purpose purpose = arena_.purpose_of(piece);
  const Program& program = tests_ && tests_->owns_piece(piece) ? *tests_ : main_;
  const std::string bytes = bytes_text(arena_.bytes_of(piece));
  const std::string wanted =
      purpose.call < 0 ? "the input needs " + bytes
                       : text("layer \"", program.name_of(program.calls()[at(purpose.call)]),
                              "\" needs ", bytes, " for its ", purpose.what);
  throw OutOfMemory(text(network_.file(), ": out of memory: ", wanted, " with a batch of ",
                         network_.batch(), ", the largest part of ", bytes_text(arena_.bytes()),
                         " for activations"));
}

Program::Input Programs::input() const {
  Program::Input input = main_.input();
  if (tests_ && input.labels.shape.rank() == 0) input.labels = tests_->input().labels;
  return input;
}

size_t Programs::scratch_bytes() const {
  return std::max(main_.scratch_bytes(), tests_ ? tests_->scratch_bytes() : 0);
}

}  // namespace poseidon::net
