#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

/// Records the activities of a thread, or the transfers of connections, with their times.
namespace poseidon {

/// The most recent time spans, in a ring of fixed size. Not thread-safe: calls of several threads
/// require a lock. TraceScope accepts a null pointer instead of a recorder, and then records
/// nothing.
class TraceRecorder {
 public:
  /// Index of a LabelText in labels().
  using Label = uint32_t;
  struct LabelText {
    std::string track;     ///< the row in the trace viewer: "compute", "to server 1"
    std::string category;  ///< such as "forward"
    std::string name;      ///< such as "conv1"
    bool operator<(const LabelText& other) const {
      return std::tie(track, category, name) < std::tie(other.track, other.category, other.name);
    }
  };
  struct Span {
    Label label = 0;
    uint32_t part = kWhole;  ///< index of a chunk, or first logical shard of a factor; kWhole: none
    int64_t step = 0;        ///< from 1
    int64_t begin_ns = 0, end_ns = 0;
    int64_t queued_ns = 0;  ///< for a chunk or factor: ns that it waited before begin_ns; else 0
  };
  static constexpr uint32_t kWhole = UINT32_MAX;
  static constexpr size_t kDefaultCapacity = size_t{1} << 16;

  explicit TraceRecorder(size_t capacity = kDefaultCapacity);

  /// Time of the steady clock, ns.
  static int64_t now();

  Label label(const LabelText& text);
  const std::vector<LabelText>& labels() const { return labels_; }

  /// Sets the step (from 1) of the spans that a TraceScope adds from now on.
  void set_step(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }
  /// Adds a span. If the ring is full, overwrites the oldest span.
  void add(const Span& span);

  /// The spans of the steps from `first_step` on, in the order of add(). Omits all steps up to the
  /// newest step of which a span was overwritten, because these steps may be incomplete.
  std::vector<Span> spans(int64_t first_step) const;

 private:
  const size_t capacity_;
  std::vector<LabelText> labels_;
  std::map<LabelText, Label> label_of_;
  std::vector<Span> ring_;
  size_t next_ = 0;          ///< index of the oldest span in the ring, once it is full
  int64_t lost_up_to_ = -1;  ///< the newest step of which a span was overwritten; -1: none
  int64_t step_ = 0;
};

/// Records the time from construction to the end of the scope as a span, unless `recorder` is null.
class TraceScope {
 public:
  TraceScope(TraceRecorder* recorder, TraceRecorder::Label label)
      : recorder_(recorder),
        label_(label),
        begin_ns_(recorder != nullptr ? TraceRecorder::now() : 0) {}
  ~TraceScope() {
    if (recorder_ != nullptr)
      recorder_->add({.label = label_,
                      .step = recorder_->step(),
                      .begin_ns = begin_ns_,
                      .end_ns = TraceRecorder::now()});
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceRecorder* recorder_;
  const TraceRecorder::Label label_;
  const int64_t begin_ns_;
};

}  // namespace poseidon
