#include "layers/cuda/matrix_requests.h"

namespace poseidon::layers::cuda {

std::vector<MatrixRequest> matrix_requests(const MatrixProblem& problem, Precision precision) {
  const bool fp32 = precision == Precision::kFp32;
  std::vector<MatrixRequest> requests{{.problem = problem, .fp32_mask = fp32}};
  if (fp32) requests.push_back({.problem = problem, .note = " (no fp32 mask)"});
  if (problem.bias || problem.relu) {
    MatrixProblem plain = problem;
    plain.bias = plain.relu = false;
    requests.push_back({.problem = plain,
                        .epilogue = false,
                        .note = fp32 ? " (no fp32 mask, no epilogue)" : " (no epilogue)"});
  }
  return requests;
}

std::unique_ptr<Product> plan_first(const MatrixProblem& problem, Precision precision,
                                    const PlanRequest& plan) {
  for (const MatrixRequest& request : matrix_requests(problem, precision))
    if (auto product = plan(request)) return product;
  return nullptr;
}

}  // namespace poseidon::layers::cuda
