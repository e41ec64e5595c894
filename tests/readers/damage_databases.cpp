// damage_<format> FIRST_SEED COUNT: damages a database COUNT times and reads each copy. Fails if an
// error is not one clear line. Prints counts of the results.

#include <cstdio>
#include <cstdlib>

#include "tests/readers/damage.h"

int main(int count, char** arguments) {
  using namespace poseidon::readers;
  if (count != 3) {
    std::fprintf(stderr, "expected: %s FIRST_SEED COUNT\n", arguments[0]);
    return 2;
  }
  const uint64_t first = std::strtoull(arguments[1], nullptr, 10);
  const uint64_t seeds = std::strtoull(arguments[2], nullptr, 10);
  const poseidon::data::made::Folder folder;
  made::make_database(folder / "whole", made::entries(120));
  uint64_t read = 0, refused = 0, crashed = 0, stuck = 0, unclear = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Outcome outcome = read_damaged(folder / "whole", folder / "damaged", seed);
    ++(outcome.error.empty() ? read
       : outcome.crashed()   ? crashed
       : outcome.stuck()     ? stuck
                             : refused);
    if (outcome.error.empty() || is_clear(outcome.error, folder / "damaged")) continue;
    ++unclear;
    std::printf("seed %llu: not one clear line: %s\n", static_cast<unsigned long long>(seed),
                outcome.error.c_str());
  }
  std::printf(
      "%llu damaged: %llu read to the end, %llu refused, %llu crashed the reader, %llu stuck\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(read),
      static_cast<unsigned long long>(refused), static_cast<unsigned long long>(crashed),
      static_cast<unsigned long long>(stuck));
  return unclear == 0 ? 0 : 1;
}
