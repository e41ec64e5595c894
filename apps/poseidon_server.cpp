// poseidon-server: sums gradients in jobs that poseidon-train coordinates.

#include "apps/member_program.h"

int main(int count, char** arguments) {
  return poseidon::apps::run_member_program("poseidon-server",
                                            "Sums gradients for training jobs of poseidon-train.",
                                            false, count, arguments, poseidon::trainer::run_server);
}
