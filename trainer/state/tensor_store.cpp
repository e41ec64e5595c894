#include "trainer/state/tensor_store.h"

#include <algorithm>

#include "comm/plan/plan.h"
#include "core/error.h"
#include "core/fields.h"

namespace poseidon::trainer {

namespace {

Json list_of(const std::vector<NamedTensor>& tensors) {
  Json list = Json::array();
  for (const NamedTensor& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"shape", tensor.shape.extents()}});
  return list;
}

/// Limits the memory that a peer can make this process allocate for one tensor.
constexpr int64_t kMostElements = int64_t{1} << 31;

void read_entry(Fields& fields, TensorStore::Entry& entry, const JsonPath& place) {
  std::vector<int64_t> extents;
  fields.text("name", entry.name, "of the tensor", Presence::kRequired);
  fields.integers("shape", extents, at_least(1), "its extents", Presence::kRequired);
  if (extents.size() > Shape::kMaxRank) fail_at(place, "expected at most four extents in a tensor");
  int64_t count = 1;
  for (int64_t extent : extents) {
    if (extent > kMostElements / count)
      fail_at(place, "expected fewer than 2^31 elements in a tensor");
    count *= extent;
  }
  entry.shape = Shape(std::span<const int64_t>(extents));
  entry.memory = std::make_shared_for_overwrite<float[]>(static_cast<size_t>(count));
}

/// Appends the tensors in the list `key`.
void read_list(Fields& fields, const char* key, std::vector<TensorStore::Entry>& entries,
               const JsonPath& place) {
  const size_t before = entries.size();
  fields.objects(
      key, 0, [&](size_t size) { entries.resize(before + size); },
      [&](Fields& f, size_t i) { read_entry(f, entries[before + i], place.at(key).at(i)); }, "",
      Presence::kRequired);
}

}  // namespace

TensorStore::TensorStore(const Json& list) {
  const JsonPath place{"the list of tensors", ""};
  read_fields(list, place, [&](Fields& fields) {
    int64_t parameters = 0;
    fields.integer("parameters", parameters, at_least(0), "", Presence::kRequired);
    parameters_ = static_cast<size_t>(parameters);
    read_list(fields, "weights", entries_, place);
    weights_ = entries_.size();
    read_list(fields, "optimizer", entries_, place);
    optimizer_ = entries_.size() - weights_;
    read_list(fields, "sums", entries_, place);
    int64_t steps = 0;
    fields.integer("sum_steps", steps, between(0, comm::kMaxStaleness), "", Presence::kRequired);
    sum_steps_ = static_cast<size_t>(steps);
  });
  if (parameters_ > weights_) fail_at(place, "expected at most as many parameters as weights");
  const size_t sums = entries_.size() - weights_ - optimizer_;
  if (sum_steps_ == 0 ? sums > 0 : sums % sum_steps_ != 0)
    fail_at(place,
            text("expected equally many sums in each of ", sum_steps_, " steps, got ", sums));
}

RunTensors TensorStore::tensors() {
  RunTensors tensors;
  tensors.parameters = parameters_;
  tensors.sums.resize(sum_steps_);
  const size_t first_sum = weights_ + optimizer_;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    NamedTensor tensor{
        .name = entry.name,
        .shape = entry.shape,
        .get = [&entry](std::span<float> out) { std::ranges::copy(entry.values(), out.begin()); },
        .set =
            [&entry](std::span<const float> values) {
              std::ranges::copy(values, entry.values().begin());
            }};
    if (i < first_sum)
      (i < weights_ ? tensors.weights : tensors.optimizer).push_back(std::move(tensor));
    else
      tensors.sums[(i - first_sum) * sum_steps_ / (entries_.size() - first_sum)].push_back(
          std::move(tensor));
  }
  return tensors;
}

std::vector<std::span<std::byte>> TensorStore::memory() const {
  std::vector<std::span<std::byte>> memory;
  for (const Entry& entry : entries_) memory.push_back(std::as_writable_bytes(entry.values()));
  return memory;
}

Json tensor_list(const RunTensors& tensors) {
  Json sums = Json::array();
  for (const std::vector<NamedTensor>& of_step : tensors.sums)
    for (const Json& entry : list_of(of_step)) sums.push_back(entry);
  return {{"parameters", tensors.parameters},
          {"weights", list_of(tensors.weights)},
          {"optimizer", list_of(tensors.optimizer)},
          {"sums", std::move(sums)},
          {"sum_steps", tensors.sums.size()}};
}

}  // namespace poseidon::trainer
