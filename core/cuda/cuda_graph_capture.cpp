#include "core/cuda/cuda_graph_capture.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "core/log.h"

namespace poseidon::cuda {

namespace {

/// The memory that an operation reads and writes.
class TouchedMemory final : public MemoryVisitor {
 public:
  explicit TouchedMemory(const Operation& operation) { operation.visit(*this); }

  void reads(const void* data, size_t bytes) override { all_.emplace_back(data, bytes, false); }
  void writes(const void* data, size_t bytes) override { all_.emplace_back(data, bytes, true); }
  bool operator==(const TouchedMemory& other) const { return all_ == other.all_; }

 private:
  std::vector<std::tuple<const void*, size_t, bool>> all_;
};

std::string name_of(const GraphNode& node) {
  return node.operation == nullptr ? "copy" : node.operation->name();
}

/// The difference between two nodes, for messages; "" if they do the same work.
std::string difference(const GraphNode& a, const GraphNode& b) {
  if (name_of(a) != name_of(b)) return text("is \"", name_of(b), "\" now");
  if (a.operation == nullptr || b.operation == nullptr)
    return std::tie(a.from, a.to, a.bytes) == std::tie(b.from, b.to, b.bytes)
               ? ""
               : "copies different memory now";
  if (!(TouchedMemory(*a.operation) == TouchedMemory(*b.operation)))
    return "uses different memory now";
  return std::ranges::equal(a.operation->arguments(), b.operation->arguments())
             ? ""
             : "has different arguments now";
}

std::string text_of(const GraphKey& key) {
  std::string numbers;
  for (const int64_t number : key.numbers) numbers += text(" ", number);
  return text("graph of ", key.what, numbers);
}

/// Throws LogicError if the work of a key has changed. Every value that changes from step to step
/// must be in the key or in device memory.
void expect_same(const GraphKey& key, const std::vector<GraphNode>& recorded,
                 const std::vector<GraphNode>& now) {
  for (size_t i = 0; i < std::min(recorded.size(), now.size()); ++i)
    if (const std::string what = difference(recorded[i], now[i]); !what.empty())
      throw LogicError(text(text_of(key), ": operation ", i, ", recorded as \"",
                            name_of(recorded[i]), "\", ", what));
  if (recorded.size() != now.size())
    throw LogicError(text(text_of(key), ": expected the ", recorded.size(),
                          " recorded operations, got ", now.size()));
}

}  // namespace

void CudaGraphCapture::issue_first(const GraphKey& key, const std::function<void()>& work) {
  CapturedWork first;
  if (compares_) first.nodes = device_.nodes_of(work);
  work();
  known_.emplace(key, std::move(first));
}

void CudaGraphCapture::issue(const GraphKey& key, const std::function<void()>& work) {
  const auto found = known_.find(key);
  if (found == known_.end()) return issue_first(key, work);
  CapturedWork& known = found->second;
  if (compares_) expect_same(key, known.nodes, device_.nodes_of(work));
  if (known.graph == nullptr && !known.one_by_one) make_graph(known, key, work);
  if (known.one_by_one) return work();
  device_.issue(known.graph);
}

/// Makes the graph of a key, unless its work has too few operations. If CUDA refuses the graph,
/// warns unless CUDA has refused an earlier graph. Throws OutOfMemory, because a smaller batch may
/// help.
void CudaGraphCapture::make_graph(CapturedWork& known, const GraphKey& key,
                                  const std::function<void()>& work) {
  std::vector<GraphNode> nodes = device_.nodes_of(work);
  known.one_by_one = nodes.empty() || nodes.size() < device_.settings().min_graph_operations;
  if (known.one_by_one) return;
  try {
    known.graph = device_.make_graph(std::move(nodes));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const RunError& error) {
    known.one_by_one = true;
    warn(key, error.what());
  }
}

void CudaGraphCapture::warn(const GraphKey& key, const std::string& reason) {
  if (has_warned_ || device_.settings().log == nullptr) return;
  has_warned_ = true;
  device_.settings().log->warning(text(
      "CUDA refused the ", text_of(key), " (", reason,
      "); the run issues these operations one by one, with equal results. Further refusals are "
      "not reported; \"device.graphs\": false turns graphs off"));
}

}  // namespace poseidon::cuda
