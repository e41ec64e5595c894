#pragma once

namespace poseidon {

/// One function object of several, of which the type of the argument picks one.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace poseidon
