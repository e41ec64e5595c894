#include "trainer/coordinator/first_values.h"

#include "trainer/state/run_tensors.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

namespace {

/// Has each tensor note, when it is set, that its value is known.
void mark_known(std::vector<NamedTensor>& tensors, size_t first, std::vector<bool>& known) {
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].set = [&known, place = first + i,
                      set = tensors[i].set](std::span<const float> values) {
      known[place] = true;
      set(values);
    };
}

}  // namespace

std::vector<PlacedTensor> first_values(const Json& list, const Checkpoint* resumed,
                                       const std::filesystem::path& weights, Log& log) {
  if (resumed == nullptr && weights.empty()) return {};
  TensorStore store(list);
  RunTensors tensors = store.tensors();
  std::vector<bool> known(store.entries().size());
  mark_known(tensors.weights, 0, known);
  size_t first = tensors.weights.size();
  mark_known(tensors.optimizer, first, known);
  first += tensors.optimizer.size();
  for (std::vector<NamedTensor>& of_step : tensors.sums) {
    mark_known(of_step, first, known);
    first += of_step.size();
  }
  if (resumed != nullptr)
    resumed->restore(tensors);
  else
    report_match(weights, load_weights(weights, tensors), log);
  std::vector<PlacedTensor> values;
  for (uint32_t place = 0; place < known.size(); ++place)
    if (known[place]) values.push_back({place, store.entries()[place].payload()});
  return values;
}

}  // namespace poseidon::trainer
