// poseidon-worker: computes in jobs that poseidon-train coordinates.

#include "apps/member_program.h"
#include "apps/team_waits.h"

int main(int count, char** words) {
  poseidon::apps::wait_without_spinning(words);
  return poseidon::apps::run_member_program(
      "poseidon-worker", "Computes in training jobs that poseidon-train coordinates.", true, count,
      words, poseidon::trainer::run_worker);
}
