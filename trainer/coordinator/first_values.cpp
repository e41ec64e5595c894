#include "trainer/coordinator/first_values.h"

#include "trainer/coordinator/coordinator_io.h"
#include "trainer/messages/notes.h"
#include "trainer/report/run_classes.h"
#include "trainer/state/run_tensors.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

namespace {

/// Replaces the setter of each tensor by one that also sets the tensor's entry in `known`. The
/// entry of the first tensor has the index `first`.
void mark_known(std::vector<NamedTensor>& tensors, size_t first, std::vector<bool>& known) {
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].set = [&known, index = first + i,
                      set = tensors[i].set](std::span<const float> values) {
      known[index] = true;
      set(values);
    };
}

/// Returns the values that are in the checkpoint or in the weights file. Sets `all_fit` to false if
/// the weights file has no value for a weight.
std::vector<IndexedTensor> first_values(const Json& list, const Checkpoint* resumed,
                                        const std::filesystem::path& weights, Log& log,
                                        bool& all_fit) {
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
  if (resumed != nullptr) {
    resumed->restore(tensors);
  } else {
    const MatchReport match = load_weights(weights, tensors);
    report_match(weights, match, log);
    all_fit = match.all_fit();
  }
  std::vector<IndexedTensor> values;
  for (uint32_t index = 0; index < known.size(); ++index)
    if (known[index]) values.push_back({index, store.entries()[index].payload()});
  return values;
}

}  // namespace

void FirstValues::make(const Json& list, const Checkpoint* resumed,
                       const std::filesystem::path& weights, Log& log) {
  made_ = true;
  values_ = first_values(list, resumed, weights, log, all_fit_);
}

std::optional<std::vector<std::string>> FirstValues::checked_classes(const RunOptions& options,
                                                                     Log& log) {
  if (!made_ || !classes_) return std::nullopt;
  check_classes_of_run(options, *classes_, all_fit_, log);
  return std::exchange(classes_, std::nullopt);
}

void FirstValues::send(uint16_t worker, uint32_t view, int64_t first_step,
                       CoordinatorIo& io) const {
  ValuesNote which;
  for (const IndexedTensor& tensor : values_) which.tensors.push_back(tensor.index);
  io.post([worker, view, note = write_note(which, first_step),
           values = values_](CoordinatorSide& side) {
    // After the end of the view, another worker may have this rank.
    if (side.coordinator->view() != view || side.is_between_views()) return;
    side.coordinator->note(worker, note);
    for (const auto& [index, tensor] : values)
      comm::send_tensor({.view = view, .key = index}, tensor,
                        [&](const comm::FrameHeader& header, const comm::Payload& payload) {
                          side.coordinator->send(worker, header, payload);
                        });
  });
}

}  // namespace poseidon::trainer
