#include "tests/support/gpu/host_products.h"

#include "core/error.h"

namespace poseidon::test {

std::unique_ptr<layers::cuda::Product> HostProducts::plan(const layers::cuda::ConvolutionProblem&) {
  throw LogicError("not yet");
}

std::unique_ptr<layers::cuda::Product> HostProducts::plan(const layers::cuda::MatrixProblem&) {
  throw LogicError("not yet");
}

}  // namespace poseidon::test
