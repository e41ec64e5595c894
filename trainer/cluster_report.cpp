#include "trainer/cluster_report.h"

#include "trainer/sync_plan.h"

namespace poseidon::trainer {

ClusterReport::ClusterReport(const comm::Plan& plan, const std::filesystem::path& folder,
                             const Metrics::Options& metrics, Console& console)
    : plan_(plan),
      metrics_(folder, metrics, console),
      times_(workers(), plan.layers.size()),
      bytes_of_layer_(plan.layers.size()) {}

bool ClusterReport::take_step(uint16_t worker, const comm::Note& note, int64_t last_step) {
  WorkerStep part = read_step(note, plan_);
  times_.add(worker, part.report);
  auto& gathered = steps_.try_emplace(note.step, workers()).first->second;
  if (!gathered.add(worker, std::move(part))) return false;
  std::vector<WorkerStep> parts;
  for (const auto& each : gathered.parts()) parts.push_back(*each);
  steps_.erase(note.step);
  last_report_ = join_steps(parts, plan_);
  metrics_.trained(last_report_, note.step == last_step);
  return true;
}

void ClusterReport::take_test(uint16_t worker, const comm::Note& note) {
  const TestSums part{.samples = note.content.at("samples").get<int64_t>(),
                      .loss = note.content.at("loss").get<double>(),
                      .top1 = note.content.at("top1").get<int64_t>(),
                      .top5 = note.content.at("top5").get<int64_t>()};
  auto& gathered = tests_.try_emplace(note.step, workers()).first->second;
  if (!gathered.add(worker, part)) return;
  TestSums sums;
  for (const auto& each : gathered.parts()) sums += *each;
  tests_.erase(note.step);
  last_test_ = sums.mean(0);
  metrics_.tested(note.step, *last_test_);
}

void ClusterReport::take_traffic(comm::NodeId node, const Json& content) {
  const Json& layers = content.at("layers");
  for (size_t i = 0; i < std::min(bytes_of_layer_.size(), layers.size()); ++i) {
    bytes_of_layer_[i].sent += layers[i].at("sent").get<int64_t>();
    bytes_of_layer_[i].received += layers[i].at("received").get<int64_t>();
  }
  heard_.insert(node);
}

Json ClusterReport::traffic(int64_t steps) const {
  Json traffic = traffic_json(plan_, steps, bytes_of_layer_);
  Json unheard = Json::array();
  for (const auto& [role, count] :
       {std::pair(comm::Role::kWorker, plan_.workers), {comm::Role::kServer, plan_.servers}})
    for (int64_t rank = 0; rank < count; ++rank)
      if (const comm::NodeId node{role, static_cast<uint16_t>(rank)}; !heard_.contains(node))
        unheard.push_back(comm::name_of(node));
  if (!unheard.empty()) traffic["unheard"] = std::move(unheard);
  return traffic;
}

Json ClusterReport::summary(const Json& traffic) const {
  const auto nodes = static_cast<double>(comm::layout_of(plan_).nodes());
  const bool trained = last_report_.step > 0;
  return {{"train_loss", trained ? Json(last_report_.loss) : Json()},
          {"test_top1", last_test_ ? Json(last_test_->top1) : Json()},
          {"test_top5", last_test_ ? Json(last_test_->top5) : Json()},
          {"test_loss", last_test_ ? Json(last_test_->loss) : Json()},
          {"samples_per_second", metrics_.samples_per_second()},
          {"bytes_sent", traffic["bytes_sent"].get<double>() / nodes},
          {"bytes_received", traffic["bytes_received"].get<double>() / nodes},
          {"time", times_.workers(plan_)},
          {"layers", layers(traffic)}};
}

/// What each layer moved over all nodes and was waited for, beside what was planned.
Json ClusterReport::layers(const Json& traffic) const {
  Json layers = Json::array();
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const Json& layer = traffic["layers"][i];
    layers.push_back(
        {{"name", layer["name"]},
         {"scheme", layer["scheme"]},
         {"bytes", layer["bytes_sent"].get<int64_t>() + layer["bytes_received"].get<int64_t>()},
         {"planned_bytes", layer["planned_bytes"]},
         {"sum_wait_s", times_.layer_wait_s(i)}});
  }
  return layers;
}

}  // namespace poseidon::trainer
