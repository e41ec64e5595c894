#include "trainer/step/completion_queue.h"

#include <doctest/doctest.h>

#include <vector>

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// An event that the test completes.
class Switch final : public Event::Point {
 public:
  bool reached() const override { return tasks_.empty(); }
  void wait() const override {}
  void then(std::function<void()> task) const override { tasks_.push_back(std::move(task)); }

  void forget() { tasks_.clear(); }
  void reach() {
    for (const auto& task : tasks_) task();
    tasks_.clear();
  }

 private:
  mutable std::vector<std::function<void()>> tasks_;
};

}  // namespace

TEST_CASE("completions run in the order of their enqueueing, in any order of the events") {
  const auto first = std::make_shared<Switch>(), second = std::make_shared<Switch>();
  std::vector<int> done;
  CompletionQueue hand_overs;
  hand_overs.add(Event(first), [&] { done.push_back(1); });
  hand_overs.add(Event(second), [&] { done.push_back(2); });
  hand_overs.add({}, [&] { done.push_back(3); });
  CHECK(done.empty());
  second->reach();
  CHECK(done.empty());
  first->reach();
  CHECK(done == std::vector<int>{1, 2, 3});
  hand_overs.add({}, [&] { done.push_back(4); });
  CHECK(done.back() == 4);
}

TEST_CASE("an event that the device abandons drops its completion and does not block later ones") {
  const auto first = std::make_shared<Switch>();
  std::vector<int> done;
  int forgotten = 0;
  {
    CompletionQueue hand_overs([&] { ++forgotten; });
    hand_overs.add(Event(first), [&] { done.push_back(1); });
    hand_overs.add({}, [&] { done.push_back(2); });
    first->forget();
  }
  CHECK(done == std::vector<int>{2});
  CHECK(forgotten == 1);
}
