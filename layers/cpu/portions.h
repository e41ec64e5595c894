#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "layers/cpu/one_thread.h"
#include "layers/cpu/scratch.h"

namespace poseidon::layers::cpu {

inline int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }
/// The least multiple of `unit` that is not less than `count`.
inline int64_t round_up(int64_t count, int64_t unit) { return divide_up(count, unit) * unit; }

/// The part of a pass that one thread computes at a time: some samples and some channels.
struct Portion {
  int64_t sample = 0, samples = 0;
  int64_t channel = 0, channels = 0;

  bool has_size_of(const Portion& other) const {
    return samples == other.samples && channels == other.channels;
  }
};

/// Divides a pass into portions of at most `each.samples` samples and `each.channels` channels.
inline std::vector<Portion> divide(int64_t samples, int64_t channels, const Portion& each) {
  std::vector<Portion> portions;
  for (int64_t sample = 0; sample < samples; sample += each.samples)
    for (int64_t channel = 0; channel < channels; channel += each.channels)
      portions.push_back({.sample = sample,
                          .samples = std::min(each.samples, samples - sample),
                          .channel = channel,
                          .channels = std::min(each.channels, channels - channel)});
  return portions;
}

/// oneDNN's primitives for the portions of a pass. Portions of equal size share one primitive. Each
/// primitive uses one thread, and several threads run primitives at the same time. So results do
/// not depend on the number of threads if the portions do not, or if their size changes no result.
template <class Primitive>
class PortionPrimitives {
 public:
  using Description = typename Primitive::primitive_desc;

  /// `describe` makes the optional description of a portion. If it returns nullopt for a portion,
  /// is_complete() is false, and this object is of no use.
  template <class Describe>
  PortionPrimitives(CpuDevice& device, std::vector<Portion> portions, const Describe& describe)
      : device_(device), portions_(std::move(portions)) {
    const OneThread one_thread;
    for (const Portion& portion : portions_) {
      const auto same = [&](const Made& made) { return made.size.has_size_of(portion); };
      auto made = std::ranges::find_if(made_, same);
      if (made == made_.end()) {
        const std::optional<Description> description = describe(portion);
        if (!description) return;
        made = made_.insert(made_.end(), {portion, *description, Primitive(*description)});
      }
      index_.push_back(made - made_.begin());
    }
  }

  /// The size of all portions but the last ones.
  const Portion& each() const { return portions_.front(); }
  /// Blocks of samples.
  int64_t blocks() const { return portions_.back().sample / each().samples + 1; }
  size_t count() const { return portions_.size(); }
  const Portion& portion(size_t index) const { return portions_[index]; }
  const Description& description(size_t index) const {
    return made_[static_cast<size_t>(index_[index])].description;
  }
  bool is_complete() const { return index_.size() == portions_.size(); }
  /// Bytes of memory that run() needs. `extra` is the memory of a thread beyond oneDNN's.
  size_t scratch_bytes(size_t extra = 0) const {
    return static_cast<size_t>(device_.threads()) * (scratchpad_bytes() + extra);
  }

  /// Runs all portions. Calls add_arguments(portion, description, arguments) for each.
  template <class AddArguments>
  void run(Scratch scratch, const AddArguments& add_arguments) const {
    run(scratch, 0,
        [&](const Portion& portion, const Description& description, Arguments& arguments,
            std::byte*) { add_arguments(portion, description, arguments); });
  }
  /// Also passes the memory of the calling thread, of `extra` bytes, to add_arguments().
  template <class AddArguments>
  void run(Scratch scratch, size_t extra, const AddArguments& add_arguments) const {
    const size_t each = scratchpad_bytes() + extra;
    device_.team().run(std::ssize(portions_), [&](int64_t task, int thread) {
      std::byte* own = scratch.rest() + static_cast<size_t>(thread) * each;
      const OneThread one_thread;
      const auto index = static_cast<size_t>(task);
      const Made& made = made_[static_cast<size_t>(index_[index])];
      Arguments arguments(device_);
      add_arguments(portions_[index], made.description, arguments, own);
      Scratch scratchpad(own + extra);
      dnnl::stream stream(device_.engine());
      arguments.run(made.primitive, made.description.scratchpad_desc(), scratchpad, stream);
    });
  }

 private:
  struct Made {
    Portion size;
    Description description;
    Primitive primitive;
  };

  size_t scratchpad_bytes() const {
    size_t most = 0;
    for (const Made& made : made_)
      most = std::max(most, Scratch::rounded(made.description.scratchpad_desc().get_size()));
    return most;
  }

  CpuDevice& device_;
  std::vector<Portion> portions_;
  std::vector<Made> made_;
  std::vector<std::ptrdiff_t> index_;  ///< for each portion, the index in made_
};

}  // namespace poseidon::layers::cpu
