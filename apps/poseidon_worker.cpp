// poseidon-worker: computes in jobs that poseidon-train coordinates.

#include "apps/member_program.h"

int main(int count, char** words) {
  return poseidon::apps::run_member_program(
      "poseidon-worker", "Computes in training jobs that poseidon-train coordinates.", true, count,
      words, poseidon::trainer::run_worker);
}
