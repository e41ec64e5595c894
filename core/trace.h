#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

/// Records what one thread did when, cheaply while it works, and gives it out when the work is
/// over.
namespace poseidon {

/// The newest spans of time of one thread, in a ring of fixed size. Where a null pointer takes its
/// place nothing is recorded, which costs a branch. All calls come from that thread.
class TraceRecorder {
 public:
  /// The number of a track, a category and a name.
  using Label = uint32_t;
  struct LabelText {
    std::string track;     ///< the row that it is drawn in: "compute", "to server 1"
    std::string category;  ///< "forward"
    std::string name;      ///< "conv1"
    bool operator<(const LabelText& other) const {
      return std::tie(track, category, name) < std::tie(other.track, other.category, other.name);
    }
  };
  struct Span {
    Label label = 0;
    uint32_t part = kWhole;  ///< the part of what is named: a chunk
    int64_t step = 0;        ///< counted from 1
    int64_t begin_ns = 0, end_ns = 0;
    int64_t queued_ns = 0;  ///< how long it was ready before it began
  };
  static constexpr uint32_t kWhole = UINT32_MAX;
  static constexpr size_t kUsualCapacity = size_t{1} << 16;

  explicit TraceRecorder(size_t capacity = kUsualCapacity);

  /// Nanoseconds of the steady clock.
  static int64_t now();

  Label label(const LabelText& text);
  const std::vector<LabelText>& labels() const { return labels_; }

  /// The step that the spans of a TraceScope belong to.
  void set_step(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }
  /// Adds a span, in place of the oldest one when the ring is full.
  void add(const Span& span);

  /// The spans of those steps from `first_step` on of which none was lost, by time of their end.
  std::vector<Span> spans(int64_t first_step) const;

 private:
  const size_t capacity_;
  std::vector<LabelText> labels_;
  std::map<LabelText, Label> label_of_;
  std::vector<Span> ring_;
  size_t next_ = 0;          ///< index of the oldest span in the ring, once it is full
  int64_t lost_up_to_ = -1;  ///< the newest step of which a span was overwritten
  int64_t step_ = 0;
};

/// Records the time from here to the end of its scope.
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
