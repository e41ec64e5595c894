// poseidon-worker: computes gradients in jobs that poseidon-train coordinates.

#include "apps/member_program.h"

int main(int count, char** arguments) {
  return poseidon::apps::run_member_program(
      "poseidon-worker", "Computes gradients for training jobs of poseidon-train.", true, count,
      arguments, poseidon::trainer::run_worker);
}
