#pragma once

namespace poseidon {

/// A function object made of several ones. The type of the argument selects one of them.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace poseidon
