// The fused updates compared with references in double precision, written directly from the
// formulas.

#include "layers/update.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "core/philox.h"
#include "layers/cpu/update.h"

using namespace poseidon;
using layers::UpdateParameters;
using layers::UpdateRule;

namespace {

constexpr size_t kCount = 1003;  // no multiple of a vector length
constexpr int kSteps = 6;

/// One element and its optimizer state in double precision.
struct Element {
  double value = 0;
  double state[2] = {0, 0};
};

using Reference = std::function<void(Element&, double gradient, const UpdateParameters&, int step)>;

double with_decay(double gradient, double value, const UpdateParameters& n) {
  const double sign = value > 0 ? 1 : (value < 0 ? -1 : 0);
  return gradient * n.gradient_scale + n.l2 * value + n.l1 * sign;
}

layers::UpdateMemory in_place(std::span<float> value, std::span<const float> gradient,
                              std::span<float> first, std::span<float> second = {}) {
  return {.value = value,
          .gradient = gradient,
          .state = {first, second},
          .new_value = value,
          .new_state = {first, second}};
}

/// The largest relative difference after some steps. Also checks that padding stays zero.
double difference(UpdateRule rule, UpdateParameters numbers, bool momentum,
                  const Reference& reference) {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  std::vector<float> value(kCount), gradient(kCount), first(kCount), second(kCount);
  std::vector<Element> expected(kCount);
  RandomStream random(7, RandomPurpose::kInitialization, 1, 2);
  for (size_t i = 0; i + 16 < kCount; ++i) value[i] = random.next_uniform(-1, 1);
  for (size_t i = 0; i < kCount; ++i) expected[i].value = static_cast<double>(value[i]);
  const size_t states = layers::state_names(rule, momentum).size();
  for (int step = 0; step < kSteps; ++step) {
    numbers.correction1 = static_cast<float>(1 - std::pow(numbers.beta1, step + 1));
    numbers.correction2 = static_cast<float>(1 - std::pow(numbers.beta2, step + 1));
    for (size_t i = 0; i + 16 < kCount; ++i) gradient[i] = random.next_uniform(-1, 1);
    for (size_t i = 0; i + 16 < kCount; ++i)
      reference(expected[i], static_cast<double>(gradient[i]), numbers, step);
    updater->update({.rule = rule, .l1 = numbers.l1 > 0}, &numbers,
                    in_place(value, gradient, states > 0 ? first : std::span<float>(),
                             states > 1 ? second : std::span<float>()));
  }
  double worst = 0;
  for (size_t i = 0; i + 16 < kCount; ++i)
    worst = std::max(worst, std::abs(static_cast<double>(value[i]) - expected[i].value) /
                                std::max(1e-3, std::abs(expected[i].value)));
  for (size_t i = kCount - 16; i < kCount; ++i)
    if (value[i] != 0 || first[i] != 0 || second[i] != 0) worst = 1e9;
  return worst;
}

UpdateParameters numbers_of(UpdateRule rule) {
  const bool shrinks = rule == UpdateRule::kAdamW;
  return {.learning_rate = 0.05f,
          .l2 = shrinks ? 0 : 0.01f,
          .l1 = 0.002f,
          .shrinkage = shrinks ? 0.01f : 0,
          .gradient_scale = 0.5f,
          .momentum = 0.9f,
          .smoothing = 0.95f,
          .beta1 = 0.9f,
          .beta2 = 0.99f,
          .one_minus_smoothing = 0.05f,
          .one_minus_beta1 = 0.1f,
          .one_minus_beta2 = 0.01f,
          .epsilon = 1e-6f};
}

}  // namespace

TEST_CASE("sgd with momentum accumulates gradients in its velocity") {
  CHECK(difference(UpdateRule::kSgd, numbers_of(UpdateRule::kSgd), true,
                   [](Element& e, double gradient, const UpdateParameters& n, int) {
                     e.state[0] = n.momentum * e.state[0] + with_decay(gradient, e.value, n);
                     e.value -= n.learning_rate * e.state[0];
                   }) < 1e-5);
}

TEST_CASE("sgd without momentum has no state") {
  CHECK(layers::state_names(UpdateRule::kSgd, false).empty());
  CHECK(difference(UpdateRule::kSgd, numbers_of(UpdateRule::kSgd), false,
                   [](Element& e, double gradient, const UpdateParameters& n, int) {
                     e.value -= n.learning_rate * with_decay(gradient, e.value, n);
                   }) < 1e-5);
}

TEST_CASE("nesterov looks ahead along its velocity") {
  CHECK(difference(UpdateRule::kNesterov, numbers_of(UpdateRule::kNesterov), true,
                   [](Element& e, double gradient, const UpdateParameters& n, int) {
                     const double g = with_decay(gradient, e.value, n);
                     e.state[0] = n.momentum * e.state[0] + g;
                     e.value -= n.learning_rate * (g + n.momentum * e.state[0]);
                   }) < 1e-5);
}

TEST_CASE("adagrad divides by the root of all squares") {
  CHECK(difference(UpdateRule::kAdaGrad, numbers_of(UpdateRule::kAdaGrad), false,
                   [](Element& e, double gradient, const UpdateParameters& n, int) {
                     const double g = with_decay(gradient, e.value, n);
                     e.state[0] += g * g;
                     e.value -= n.learning_rate * g / (std::sqrt(e.state[0]) + n.epsilon);
                   }) < 1e-4);
}

TEST_CASE("rmsprop divides by the root of smoothed squares, with momentum and without") {
  for (const bool momentum : {false, true})
    CHECK(difference(UpdateRule::kRmsProp, numbers_of(UpdateRule::kRmsProp), momentum,
                     [momentum](Element& e, double gradient, const UpdateParameters& n, int) {
                       const double g = with_decay(gradient, e.value, n);
                       e.state[0] = n.smoothing * e.state[0] + n.one_minus_smoothing * g * g;
                       const double direction = g / (std::sqrt(e.state[0]) + n.epsilon);
                       e.state[1] = (momentum ? n.momentum * e.state[1] : 0) + direction;
                       e.value -= n.learning_rate * e.state[1];
                     }) < 1e-4);
}

TEST_CASE("adadelta scales by the ratio of smoothed steps and gradients") {
  CHECK(difference(UpdateRule::kAdaDelta, numbers_of(UpdateRule::kAdaDelta), false,
                   [](Element& e, double gradient, const UpdateParameters& n, int) {
                     const double g = with_decay(gradient, e.value, n);
                     e.state[0] = n.smoothing * e.state[0] + n.one_minus_smoothing * g * g;
                     const double step =
                         std::sqrt(e.state[1] + n.epsilon) / std::sqrt(e.state[0] + n.epsilon) * g;
                     e.state[1] = n.smoothing * e.state[1] + n.one_minus_smoothing * step * step;
                     e.value -= n.learning_rate * step;
                   }) < 1e-4);
}

TEST_CASE("adam corrects the bias of its moments, which start at zero") {
  CHECK(difference(UpdateRule::kAdam, numbers_of(UpdateRule::kAdam), false,
                   [](Element& e, double gradient, const UpdateParameters& n, int step) {
                     const double g = with_decay(gradient, e.value, n);
                     e.state[0] = n.beta1 * e.state[0] + n.one_minus_beta1 * g;
                     e.state[1] = n.beta2 * e.state[1] + n.one_minus_beta2 * g * g;
                     const double first = e.state[0] / (1 - std::pow(n.beta1, step + 1));
                     const double second = e.state[1] / (1 - std::pow(n.beta2, step + 1));
                     e.value -= n.learning_rate * first / (std::sqrt(second) + n.epsilon);
                   }) < 1e-4);
}

TEST_CASE("adamw decays the value, not the gradient") {
  CHECK(difference(UpdateRule::kAdamW, numbers_of(UpdateRule::kAdamW), false,
                   [](Element& e, double gradient, const UpdateParameters& n, int step) {
                     const double g = with_decay(gradient, e.value, n);
                     e.value *= 1 - n.learning_rate * n.shrinkage;
                     e.state[0] = n.beta1 * e.state[0] + n.one_minus_beta1 * g;
                     e.state[1] = n.beta2 * e.state[1] + n.one_minus_beta2 * g * g;
                     const double first = e.state[0] / (1 - std::pow(n.beta1, step + 1));
                     const double second = e.state[1] / (1 - std::pow(n.beta2, step + 1));
                     e.value -= n.learning_rate * first / (std::sqrt(second) + n.epsilon);
                   }) < 1e-4);
}

TEST_CASE("lars accumulates gradients scaled by its trust ratio") {
  UpdateParameters numbers = numbers_of(UpdateRule::kLars);
  numbers.trust = 0.25f;
  CHECK(difference(UpdateRule::kLars, numbers, true,
                   [](Element& e, double gradient, const UpdateParameters& n, int) {
                     e.state[0] =
                         n.momentum * e.state[0] + n.trust * with_decay(gradient, e.value, n);
                     e.value -= n.learning_rate * e.state[0];
                   }) < 1e-5);
}

TEST_CASE("large tensors give the bits of small ones with any number of threads, for every rule") {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  const size_t count = 50021;
  RandomStream random(3, RandomPurpose::kInitialization, 1, 2);
  std::vector<float> value(count), gradient(count), old_state(count);
  for (float& v : value) v = random.next_uniform(-1, 1);
  for (float& g : gradient) g = random.next_uniform(-1, 1);
  for (float& s : old_state) s = random.next_uniform(0, 1);
  for (int rule = 0; rule <= static_cast<int>(UpdateRule::kLars); ++rule)
    for (const bool momentum : {false, true}) {
      const layers::UpdateForm form{.rule = static_cast<UpdateRule>(rule), .l1 = true};
      const UpdateParameters numbers = numbers_of(form.rule);
      const size_t states = layers::state_names(form.rule, momentum).size();
      using Tensors = std::array<std::vector<float>, 3>;  // the value and its optimizer states
      Tensors whole{value, old_state, old_state}, pieces = whole;
      const auto update = [&](Tensors& tensors, size_t first, size_t length) {
        const auto part = [&](std::vector<float>& v, bool used = true) {
          return used ? std::span(v).subspan(first, length) : std::span<float>();
        };
        updater->update(form, &numbers,
                        in_place(part(tensors[0]), part(gradient), part(tensors[1], states > 0),
                                 part(tensors[2], states > 1)));
      };
      update(whole, 0, count);
      for (size_t first = 0; first < count; first += 1001)
        update(pieces, first, std::min<size_t>(1001, count - first));
      CAPTURE(rule);
      CAPTURE(momentum);
      CHECK(whole[0] != value);
      for (size_t i = 0; i < whole.size(); ++i) CHECK(whole[i] == pieces[i]);
    }
}

TEST_CASE("out-of-place updates give the bits of in-place updates, for every rule") {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  RandomStream random(4, RandomPurpose::kInitialization, 1, 2);
  for (const size_t count : {kCount, size_t{40003}})
    for (int rule = 0; rule <= static_cast<int>(UpdateRule::kLars); ++rule)
      for (const bool momentum : {false, true}) {
        const layers::UpdateForm form{.rule = static_cast<UpdateRule>(rule), .l1 = true};
        const UpdateParameters numbers = numbers_of(form.rule);
        const size_t states = layers::state_names(form.rule, momentum).size();
        std::vector<float> value(count), gradient(count), new_value(count);
        std::vector<std::vector<float>> state(states, value), new_state(states, value);
        for (float& v : value) v = random.next_uniform(-1, 1);
        for (float& g : gradient) g = random.next_uniform(-1, 1);
        for (auto& tensor : state)
          for (float& s : tensor) s = random.next_uniform(0, 1);
        const std::vector<float> old_value = value;
        const std::vector<std::vector<float>> old_state = state;

        layers::UpdateMemory beside{.value = value,
                                    .gradient = gradient,
                                    .state = {},
                                    .new_value = new_value,
                                    .new_state = {}};
        layers::UpdateMemory over = beside;
        over.new_value = value;
        for (size_t i = 0; i < states; ++i) {
          beside.state[i] = over.state[i] = over.new_state[i] = state[i];
          beside.new_state[i] = new_state[i];
        }
        updater->update(form, &numbers, beside);
        CAPTURE(rule);
        CHECK(value == old_value);
        CHECK(state == old_state);
        updater->update(form, &numbers, over);
        CHECK(value == new_value);
        CHECK(state == new_state);
        CHECK(value != old_value);
      }
}

TEST_CASE("a statistic moves towards the mean of its contributions, in place or out of place") {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  std::vector<float> value{1, -2, 0.5f}, sum{9, 3, 0}, next(3);
  updater->track({.momentum = 0.25f, .contribution_weight = 1.0f / 3}, value, sum, next);
  CHECK(next == std::vector<float>{1.5f, -1.25f, 0.375f});
  updater->track({.momentum = 0.25f, .contribution_weight = 1.0f / 3}, value, sum, value);
  CHECK(value == next);
}

TEST_CASE("the products of a statistic are rounded before they are added") {
  // If a compiler fuses the multiplication and the addition, the last bit differs.
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  const float value = 1.2345678f, momentum = 0.1f, contribution_weight = 1.0f / 3;
  std::vector<float> next(1), sum(1);
  for (int i = 1; i < 100; ++i) {
    sum[0] = static_cast<float>(i) * 0.7654321f;
    updater->track({.momentum = momentum, .contribution_weight = contribution_weight},
                   std::span(&value, 1), sum, next);
    const volatile float mean = contribution_weight * sum[0];
    const volatile float distance = mean - value;
    const volatile float step = momentum * distance;
    CHECK(next[0] == value + step);
  }
}

TEST_CASE("EMA moves towards a value by the rate, in place or not, with each operation rounded") {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  for (const size_t count : {3, 50000})  // on one thread, and on several
    for (const float rate : {1.0f, 0.1f, 0.0001f}) {
      std::vector<float> average(count), value(count), next(count), expected(count);
      for (size_t i = 0; i < count; ++i) {
        average[i] = 1.2345678f + static_cast<float>(i);
        value[i] = 0.7654321f * static_cast<float>(i);
        const volatile float distance = value[i] - average[i];
        const volatile float step = rate * distance;
        expected[i] = average[i] + step;
      }
      updater->average(&rate, average, value, next);
      CHECK(next == expected);
      updater->average(&rate, average, value, average);
      CHECK(average == expected);
    }
}

TEST_CASE("swap exchanges the values of two tensors") {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  for (const size_t count : {0, 3, 50000}) {
    std::vector<float> a(count, 1.5f), b(count, -2);
    updater->swap(a, b);
    CHECK(a == std::vector<float>(count, -2));
    CHECK(b == std::vector<float>(count, 1.5f));
  }
}

TEST_CASE("the squared norm is exact for values with an exact sum") {
  cpu::ThreadTeam team(2);
  const auto updater = layers::cpu::make_cpu_updater(team);
  std::vector<float> values(50000, 2.0f);
  CHECK(updater->squared_norm(values) == 200000);
  CHECK(updater->squared_norm({}) == 0);
}
