// Prints the table of cuDNN's plans for the convolutions of all networks in configs/:
//   build/release/bin/cuda_plans > tests/cuda_plans/plans.txt
//   build/release/bin/cuda_plans > tests/cuda_plans/plans.txt

#include <exception>
#include <iostream>

#include "tests/cuda_plans/plan_table.h"

int main() {
  try {
    std::cout << poseidon::test::table_text(
        poseidon::test::chosen_plans(poseidon::test::Convolutions()));
  } catch (const std::exception& error) {
    std::cerr << "cuda_plans: " << error.what() << "\n";
    return 1;
  }
  return std::cout.flush() ? 0 : 1;
}
