#include "trainer/inference/confusion.h"

#include <algorithm>

#include "trainer/inference/trained_net.h"

namespace poseidon::trainer {

namespace {

int32_t best_class(std::span<const float> scores) {
  size_t best = 0;
  for (size_t i = 1; i < scores.size(); ++i)
    if (scores[i] > scores[best]) best = i;
  return static_cast<int32_t>(best);
}

}  // namespace

void Confusion::add(std::span<const float> scores, int64_t classes,
                    std::span<const int32_t> labels) {
  const auto width = static_cast<size_t>(classes);
  for (size_t i = 0; i < labels.size(); ++i)
    ++samples_[{labels[i], best_class(scores.subspan(i * width, width))}];
}

Json Confusion::json(const std::vector<std::string>& names) const {
  struct Count {
    int64_t samples = 0, correct = 0;
  };
  std::map<int32_t, Count> classes;
  std::vector<std::pair<std::pair<int32_t, int32_t>, int64_t>> wrong;
  for (const auto& [pair, count] : samples_) {
    classes[pair.first].samples += count;
    if (pair.first == pair.second) classes[pair.first].correct += count;
    if (pair.first != pair.second) wrong.emplace_back(pair, count);
  }
  std::ranges::stable_sort(wrong, std::greater{}, [](const auto& each) { return each.second; });
  const auto name = [&](int32_t label) { return class_name(names, static_cast<size_t>(label)); };
  Json json{{"classes", Json::array()}, {"confusions", Json::array()}};
  for (const auto& [label, count] : classes)
    json["classes"].push_back(
        {{"class", name(label)},
         {"samples", count.samples},
         {"correct", count.correct},
         {"accuracy", static_cast<double>(count.correct) / static_cast<double>(count.samples)}});
  for (const auto& [pair, count] : wrong)
    json["confusions"].push_back(
        {{"class", name(pair.first)}, {"taken_for", name(pair.second)}, {"samples", count}});
  return json;
}

}  // namespace poseidon::trainer
