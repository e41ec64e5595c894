#include "layers/update.h"

namespace poseidon::layers {

namespace {

constexpr std::array kVelocity{"velocity"};
constexpr std::array kSquares{"squares"};
constexpr std::array kSquaresVelocity{"squares", "velocity"};
constexpr std::array kSquaresSteps{"squares", "squared_steps"};
constexpr std::array kMoments{"first_moment", "second_moment"};

}  // namespace

std::span<const char* const> state_names(UpdateRule rule, bool momentum) {
  switch (rule) {
    case UpdateRule::kSgd:
      if (!momentum) return {};
      return kVelocity;
    case UpdateRule::kNesterov:
    case UpdateRule::kLars: return kVelocity;
    case UpdateRule::kAdaGrad: return kSquares;
    case UpdateRule::kRmsProp:
      if (!momentum) return kSquares;
      return kSquaresVelocity;
    case UpdateRule::kAdaDelta: return kSquaresSteps;
    case UpdateRule::kAdam:
    case UpdateRule::kAdamW: return kMoments;
  }
  return {};
}

}  // namespace poseidon::layers
