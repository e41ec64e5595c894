#include "layers/cpu/update.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace poseidon::layers::cpu {

namespace {

/// Below this many elements, waking the team costs more than the work.
constexpr int64_t kWorthATeam = 1 << 14;

/// Calls body(i) for every element, vectorized, on all threads where it pays. Each element is
/// computed alone, so bits do not depend on how they are dealt.
template <class Body>
void for_each_element(int64_t count, const Body& body) {
  if (count < kWorthATeam) {
    // A copy: what the body holds could else be changed by what it writes, for all the compiler
    // knows, and the loop would stay scalar.
    const Body own = body;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) own(i);
    return;
  }
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i);
}

/// The gradient with clipping and decay in it.
template <bool kHasL1>
struct Gradient {
  const float* gradient;
  float scale, l2, l1;

  float operator()(int64_t i, float value) const {
    float g = gradient[i] * scale + l2 * value;
    if constexpr (kHasL1) g += value > 0 ? l1 : (value < 0 ? -l1 : 0.0f);
    return g;
  }
};

/// A tensor of UpdateMemory: where its old elements are and where the new ones go.
struct OldAndNew {
  const float* old;
  float* next;
};

OldAndNew value_of(const UpdateMemory& memory) {
  return {memory.value.data(), memory.new_value.data()};
}

OldAndNew state_of(const UpdateMemory& memory, size_t index) {
  return {memory.state[index].data(), memory.new_state[index].data()};
}

int64_t count_of(const UpdateMemory& memory) { return static_cast<int64_t>(memory.value.size()); }

template <class G>
void sgd(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient) {
  const OldAndNew value = value_of(memory), velocity = state_of(memory, 0);
  const float rate = n.learning_rate * n.trust, momentum = n.momentum;
  if (memory.state[0].empty()) {
    for_each_element(count_of(memory), [=](int64_t i) {
      const float w = value.old[i];
      value.next[i] = w - rate * gradient(i, w);
    });
    return;
  }
  // lars: the trust factor is part of what the velocity gathers, the learning rate is not.
  const float trust = n.trust, step = n.learning_rate;
  for_each_element(count_of(memory), [=](int64_t i) {
    const float w = value.old[i];
    const float v = momentum * velocity.old[i] + trust * gradient(i, w);
    velocity.next[i] = v;
    value.next[i] = w - step * v;
  });
}

template <class G>
void nesterov(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient) {
  const OldAndNew value = value_of(memory), velocity = state_of(memory, 0);
  const float rate = n.learning_rate, momentum = n.momentum;
  for_each_element(count_of(memory), [=](int64_t i) {
    const float w = value.old[i], g = gradient(i, w);
    const float v = momentum * velocity.old[i] + g;
    velocity.next[i] = v;
    value.next[i] = w - rate * (g + momentum * v);
  });
}

template <class G>
void adagrad(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient) {
  const OldAndNew value = value_of(memory), squares = state_of(memory, 0);
  const float rate = n.learning_rate, epsilon = n.epsilon;
  for_each_element(count_of(memory), [=](int64_t i) {
    const float w = value.old[i], g = gradient(i, w);
    const float s = squares.old[i] + g * g;
    squares.next[i] = s;
    value.next[i] = w - rate * g / (std::sqrt(s) + epsilon);
  });
}

template <class G>
void rmsprop(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient) {
  const OldAndNew value = value_of(memory);
  const OldAndNew squares = state_of(memory, 0), velocity = state_of(memory, 1);
  const float rate = n.learning_rate, epsilon = n.epsilon, momentum = n.momentum;
  const float smoothing = n.smoothing, one_minus_smoothing = n.one_minus_smoothing;
  const auto direction = [=](int64_t i, float w) {
    const float g = gradient(i, w);
    const float s = smoothing * squares.old[i] + one_minus_smoothing * g * g;
    squares.next[i] = s;
    return g / (std::sqrt(s) + epsilon);
  };
  if (memory.state[1].empty()) {
    for_each_element(count_of(memory), [=](int64_t i) {
      const float w = value.old[i];
      value.next[i] = w - rate * direction(i, w);
    });
    return;
  }
  for_each_element(count_of(memory), [=](int64_t i) {
    const float w = value.old[i];
    const float v = momentum * velocity.old[i] + direction(i, w);
    velocity.next[i] = v;
    value.next[i] = w - rate * v;
  });
}

template <class G>
void adadelta(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient) {
  const OldAndNew value = value_of(memory);
  const OldAndNew squares = state_of(memory, 0), squared_steps = state_of(memory, 1);
  const float rate = n.learning_rate, epsilon = n.epsilon;
  const float smoothing = n.smoothing, one_minus_smoothing = n.one_minus_smoothing;
  for_each_element(count_of(memory), [=](int64_t i) {
    const float w = value.old[i], g = gradient(i, w);
    const float s = smoothing * squares.old[i] + one_minus_smoothing * g * g;
    const float before = squared_steps.old[i];
    const float step = std::sqrt(before + epsilon) / std::sqrt(s + epsilon) * g;
    squares.next[i] = s;
    squared_steps.next[i] = smoothing * before + one_minus_smoothing * step * step;
    value.next[i] = w - rate * step;
  });
}

/// `decay` is what adamw takes off for each unit of the value, 0 for adam.
template <class G>
void adam(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient, float decay) {
  const OldAndNew value = value_of(memory);
  const OldAndNew first = state_of(memory, 0), second = state_of(memory, 1);
  const float beta1 = n.beta1, beta2 = n.beta2, epsilon = n.epsilon;
  const float one_minus_beta1 = n.one_minus_beta1, one_minus_beta2 = n.one_minus_beta2;
  const float rate = n.learning_rate / n.correction1;
  const float root_scale = 1 / std::sqrt(n.correction2);
  for_each_element(count_of(memory), [=](int64_t i) {
    const float w = value.old[i], g = gradient(i, w);
    const float m = beta1 * first.old[i] + one_minus_beta1 * g;
    const float v = beta2 * second.old[i] + one_minus_beta2 * g * g;
    first.next[i] = m;
    second.next[i] = v;
    value.next[i] = w - (decay * w + rate * m / (std::sqrt(v) * root_scale + epsilon));
  });
}

template <class G>
void update_by(const UpdateNumbers& n, const UpdateMemory& memory, const G& gradient) {
  switch (n.rule) {
    case UpdateRule::kSgd:
    case UpdateRule::kLars: return sgd(n, memory, gradient);
    case UpdateRule::kNesterov: return nesterov(n, memory, gradient);
    case UpdateRule::kAdaGrad: return adagrad(n, memory, gradient);
    case UpdateRule::kRmsProp: return rmsprop(n, memory, gradient);
    case UpdateRule::kAdaDelta: return adadelta(n, memory, gradient);
    case UpdateRule::kAdam: return adam(n, memory, gradient, 0);
    case UpdateRule::kAdamW: return adam(n, memory, gradient, n.learning_rate * n.l2);
  }
}

/// Eight running sums, so that the order is fixed and the loop is vectorized all the same.
double block_norm(std::span<const float> values) {
  std::array<double, 8> lanes{};
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    lanes[i % lanes.size()] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

class CpuUpdater final : public Updater {
 public:
  void update(const UpdateNumbers& numbers, const UpdateMemory& memory) override {
    const float l2 = numbers.rule == UpdateRule::kAdamW ? 0 : numbers.l2;
    const float* gradient = memory.gradient.data();
    if (numbers.l1 > 0)
      update_by(numbers, memory, Gradient<true>{gradient, numbers.gradient_scale, l2, numbers.l1});
    else
      update_by(numbers, memory, Gradient<false>{gradient, numbers.gradient_scale, l2, 0});
  }

  void track(const Tracking& numbers, std::span<const float> value, std::span<const float> sum,
             std::span<float> next) override {
    const float *old = value.data(), *all = sum.data();
    float* target = next.data();
    for_each_element(static_cast<int64_t>(value.size()),
                     [=, momentum = numbers.momentum, share = numbers.share](int64_t i) {
                       target[i] = old[i] + momentum * (share * all[i] - old[i]);
                     });
  }

  double squared_norm(std::span<const float> values) override {
    constexpr size_t kBlock = 4096;
    const auto blocks = static_cast<int64_t>((values.size() + kBlock - 1) / kBlock);
    std::vector<double> sums(static_cast<size_t>(blocks));
#pragma omp parallel for schedule(static) if (blocks > 4)
    for (int64_t b = 0; b < blocks; ++b) {
      const size_t first = static_cast<size_t>(b) * kBlock;
      sums[static_cast<size_t>(b)] =
          block_norm(values.subspan(first, std::min(kBlock, values.size() - first)));
    }
    double sum = 0;
    for (double block : sums) sum += block;
    return sum;
  }

  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    const float *left = a.data(), *right = b.data();
    float* target = sum.data();
    for_each_element(static_cast<int64_t>(sum.size()),
                     [=](int64_t i) { target[i] = left[i] + right[i]; });
  }
};

}  // namespace

std::unique_ptr<Updater> make_cpu_updater() { return std::make_unique<CpuUpdater>(); }

}  // namespace poseidon::layers::cpu
