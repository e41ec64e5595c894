#pragma once

namespace poseidon {

/// A function object that combines several function objects. The type of the argument selects one.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace poseidon
