#include "layers/pooling.h"

#include "core/error.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/pooling_rows.h"

namespace poseidon::layers::cpu {
namespace pooling_rows {
namespace {

/// The planes of a pooling's input and output in groups of lanes, and the tasks of the threads.
template <class Element>
class Planes {
 public:
  /// Some result rows of a group, and the memory of the thread that computes them.
  struct Task {
    int64_t group;
    Span wanted;
    Room room;
  };
  using Rows = LaneRows<Element>;

  Planes(const Pooling& definition, Layout layout, ThreadTeam& team)
      : pooling(definition),
        rows(definition, 0),
        columns(definition, 1),
        in_width(definition.input.width()),
        out_width(definition.output.width()),
        inputs_(definition.input, layout),
        outputs_(definition.output, layout),
        team_(team) {}

  size_t scratch_bytes() const { return static_cast<size_t>(team_.threads()) * bytes_of_thread(); }
  size_t bytes_of_places() const {
    return static_cast<size_t>(outputs_.count() * pooling.output.area() * kLanes) *
           sizeof(uint16_t);
  }
  /// The chosen places of one output row, [column][kLanes]; nullptr if they are not stored.
  uint16_t* places(const Bindings& memory, int64_t group, int64_t row) const {
    if (memory.workspace == nullptr) return nullptr;
    return reinterpret_cast<uint16_t*>(memory.workspace) +
           (group * pooling.output.height() + row) * out_width * kLanes;
  }
  /// Index of the plane in the group's first lane: sample * channels + channel.
  int64_t first_plane(int64_t group) const { return outputs_.at(group).plane; }

  Rows input_rows(const Tensor& tensor, int64_t group) const {
    return {tensor.as<Element>(), inputs_.at(group), in_width};
  }
  Rows output_rows(const Tensor& tensor, int64_t group) const {
    return {tensor.as<Element>(), outputs_.at(group), out_width};
  }

  /// Divides `row_count` rows of each group into tasks. Calls work(task) for each task, on several
  /// threads.
  template <class Work>
  void run(const Bindings& memory, int64_t row_count, const Work& work) const {
    // Neighboring tasks both read the rows in which their windows overlap. kMinRows limits this
    // cost.
    constexpr int64_t kTasksWanted = 32, kMinRows = 8;
    const int64_t groups = inputs_.count();
    const int64_t pieces = std::clamp<int64_t>(kTasksWanted / std::max<int64_t>(groups, 1), 1,
                                               std::max<int64_t>(row_count / kMinRows, 1));
    const int64_t elements = pooling.input.height() * in_width * kLanes / pieces;
    const int64_t at_once = std::max<int64_t>(1, kElementsOfTask / std::max<int64_t>(1, elements));
    team_.run_ranges(groups * pieces, at_once, [&](int64_t first, int64_t end, int thread) {
      std::byte* room = memory.scratch + static_cast<size_t>(thread) * bytes_of_thread();
      for (int64_t i = first; i < end; ++i) {
        const int64_t piece = i % pieces;
        work(Task{.group = i / pieces,
                  .wanted = {row_count * piece / pieces, row_count * (piece + 1) / pieces},
                  .room = Room(reinterpret_cast<float*>(room))});
      }
    });
  }

  /// The forward pass of a task. Calls make(y, a row of the input) for each input row that the task
  /// needs. Calls use(y, address of the result row) for each row of the output.
  template <class Make, class Use>
  void run_forward(const Bindings& memory, Task& task, const Make& make, const Use& use) const {
    const Rows source = input_rows(memory.inputs[0], task.group);
    const Rows target = output_rows(memory.output, task.group);
    float *in = task.room.take(in_width), *out = task.room.take(out_width);
    for_each_span(
        rows.cells, task.wanted,
        [&](int64_t y) {
          source.fetch(y, in);
          make(y, source.row(y, in));
        },
        [&](int64_t y) {
          use(y, target.row(y, out));
          target.put(y, out);
        });
  }

  /// The backward pass, if each window chose one cell. Calls spread(task, y, gradient_at, address
  /// of the row) for each row of the input's gradient. gradient_at(y) returns a row of the output's
  /// gradient.
  template <class Spread>
  void spread_rows(const Bindings& memory, const Tensor& gradient, const Spread& spread) const {
    run(memory, pooling.input.height(), [&](Task task) {
      const Rows source = output_rows(gradient, task.group);
      const Rows target = input_rows(memory.input_gradients[0], task.group);
      float* in = task.room.take(in_width);
      const Ring fetched = task.room.ring(longest(rows.covering), out_width);
      const auto gradient_at = [&](int64_t y) { return source.row(y, fetched[y]); };
      for_each_span(
          rows.covering, task.wanted, [&](int64_t y) { source.fetch(y, fetched[y]); },
          [&](int64_t y) {
            spread(task, y, gradient_at, target.row(y, in));
            target.put(y, in);
          });
    });
  }

  const Pooling& pooling;
  const Windows rows, columns;
  const int64_t in_width, out_width;

 private:
  size_t bytes_of_thread() const {
    const int64_t of_windows =
        Ring::rows_for(longest(rows.cells)) * std::max(in_width, 2 * out_width);
    const int64_t of_cells = Ring::rows_for(longest(rows.covering)) * std::max(in_width, out_width);
    return static_cast<size_t>((2 * (in_width + out_width) + std::max(of_windows, of_cells)) *
                               kLanes) *
           sizeof(float);
  }

  LaneGroups inputs_, outputs_;
  ThreadTeam& team_;
};

template <class Element>
using TaskOf = typename Planes<Element>::Task;

// ---- maxima

template <class Element>
void take_maxima(const Planes<Element>& planes, const Bindings& memory) {
  planes.run(memory, planes.pooling.output.height(), [&](TaskOf<Element> task) {
    const Ring best = task.room.ring(longest(planes.rows.cells), planes.out_width);
    const Ring where = task.room.ring(longest(planes.rows.cells), planes.out_width);
    planes.run_forward(
        memory, task,
        [&](int64_t y, const float* row) {
          best_of_columns(row, planes.columns.cells, best[y], where[y]);
        },
        [&](int64_t y, float* to) {
          best_of_rows(best, where, planes.rows.cells_of(y), planes.out_width,
                       planes.pooling.kernel[1], to, planes.places(memory, task.group, y));
        });
  });
}

/// Windows with the same columns that choose a cell of the same input row choose the same cell. The
/// exception is a window whose first cell is NaN: one of the cells then receives all these
/// gradients. So for each input row, this function first adds the gradients of windows with the
/// same columns. Then it adds these sums to the cells.
template <class Element>
void spread_to_maxima(const Planes<Element>& planes, const Bindings& memory,
                      const Tensor& gradient) {
  planes.spread_rows(
      memory, gradient, [&](TaskOf<Element> task, int64_t y, const auto& gradient_at, float* to) {
        float* sums = task.room.take(planes.out_width);
        float* columns = task.room.take(planes.out_width);
        std::fill_n(sums, planes.out_width * kLanes, 0.0F);
        const int64_t row_places = planes.pooling.kernel[1];
        const Span& covering = planes.rows.covering_of(y);
        for (int64_t o = covering.begin; o < covering.end; ++o)
          add_where_row_taken(gradient_at(o), planes.places(memory, task.group, o),
                              planes.out_width, (y - planes.rows.cells_of(o).begin) * row_places,
                              row_places, sums, columns);
        add_where_column_taken(sums, columns, planes.columns, to);
      });
}

// ---- means

/// Divides each cell of an output row by the number of its window's cells in the padded input.
template <class Element>
void divide(const Planes<Element>& planes, const float* from, int64_t row, float* to) {
  const int64_t height = planes.rows.whole[static_cast<size_t>(row)];
  for (const int64_t width : planes.columns.whole) {
    store(to, load<Float>(from) * (1 / static_cast<float>(height * width)));
    from += kLanes;
    to += kLanes;
  }
}

template <class Element>
void take_means(const Planes<Element>& planes, const Bindings& memory) {
  planes.run(memory, planes.pooling.output.height(), [&](TaskOf<Element> task) {
    const Ring sums = task.room.ring(longest(planes.rows.cells), planes.out_width);
    planes.run_forward(
        memory, task,
        [&](int64_t y, const float* row) { sum_columns(row, planes.columns.cells, sums[y]); },
        [&](int64_t y, float* to) {
          sum_rows(sums, planes.rows.cells_of(y), planes.out_width, to);
          divide(planes, to, y, to);
        });
  });
}

template <class Element>
void spread_means(const Planes<Element>& planes, const Bindings& memory, const Tensor& gradient) {
  planes.run(memory, planes.pooling.input.height(), [&](TaskOf<Element> task) {
    const LaneRows source = planes.output_rows(gradient, task.group);
    const LaneRows target = planes.input_rows(memory.input_gradients[0], task.group);
    float *in = task.room.take(planes.in_width), *out = task.room.take(planes.out_width);
    float* shares = task.room.take(planes.out_width);
    const Ring sums = task.room.ring(longest(planes.rows.covering), planes.in_width);
    for_each_span(
        planes.rows.covering, task.wanted,
        [&](int64_t y) {
          source.fetch(y, out);
          divide(planes, source.row(y, out), y, shares);
          sum_columns(shares, planes.columns.covering, sums[y]);
        },
        [&](int64_t y) {
          sum_rows(sums, planes.rows.covering_of(y), planes.in_width, target.row(y, in));
          target.put(y, in);
        });
  });
}

// ---- stochastic

/// Computes each output as take(task, y, x, row_at). row_at(y) returns a row of the input.
template <class Element, class Take>
void take_of_windows(const Planes<Element>& planes, const Bindings& memory, const Take& take) {
  planes.run(memory, planes.pooling.output.height(), [&](TaskOf<Element> task) {
    const LaneRows source = planes.input_rows(memory.inputs[0], task.group);
    const LaneRows target = planes.output_rows(memory.output, task.group);
    float* out = task.room.take(planes.out_width);
    const Ring fetched = task.room.ring(longest(planes.rows.cells), planes.in_width);
    const auto row_at = [&](int64_t y) { return source.row(y, fetched[y]); };
    for_each_span(
        planes.rows.cells, task.wanted, [&](int64_t y) { source.fetch(y, fetched[y]); },
        [&](int64_t y) {
          float* to = target.row(y, out);
          for (int64_t x = 0; x < planes.out_width; ++x)
            store(to + x * kLanes, take(task, y, x, row_at));
          target.put(y, out);
        });
  });
}

/// The chances of a group's lanes, for the output at `position`.
template <class Element>
Float chances(const Planes<Element>& planes, const StepParameters& numbers, uint64_t key,
              int64_t group, int64_t position) {
  const int64_t channels = planes.pooling.output.channels();
  Float values{};
  int64_t sample = -1, block = -1;
  PhiloxBlock words{};
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    const int64_t plane = planes.first_plane(group) + lane;
    const int64_t element = position * channels + plane % channels;
    if (sample != plane / channels || block != element / 4) {
      sample = plane / channels;
      block = element / 4;
      words = Pooling::stream_of(numbers, key, sample).at(static_cast<uint64_t>(block));
    }
    values[lane] = Pooling::chance(words[static_cast<size_t>(element % 4)]);
  }
  return values;
}

/// Chooses the cell at which the running sum reaches chance * sum of the window, or else the last
/// cell.
template <class Element>
void take_by_chance(const Planes<Element>& planes, const Bindings& memory,
                    const StepParameters& numbers, uint64_t key) {
  take_of_windows(
      planes, memory, [&](const TaskOf<Element>& task, int64_t y, int64_t x, const auto& row_at) {
        const Span &rows = planes.rows.cells_of(y), &columns = planes.columns.cells_of(x);
        const Float wanted = chances(planes, numbers, key, task.group, y * planes.out_width + x) *
                             sum_of_window(row_at, rows, columns);
        Float sum{}, chosen{};
        Int where{}, is_reached{};
        for_each_cell(row_at, rows, columns, planes.pooling.kernel[1],
                      [&](const Float& cell, int64_t place) {
                        chosen = is_reached ? chosen : cell;
                        where = is_reached ? where : Int{} + static_cast<int32_t>(place);
                        sum += cell;
                        is_reached |= sum >= wanted;
                      });
        if (memory.workspace != nullptr)
          store(planes.places(memory, task.group, y) + x * kLanes,
                __builtin_convertvector(where, Place));
        return chosen;
      });
}

/// Computes the expected value of take_by_chance(), or 0 if the sum of a window is 0 or less.
template <class Element>
void take_weighted(const Planes<Element>& planes, const Bindings& memory) {
  take_of_windows(
      planes, memory, [&](const TaskOf<Element>&, int64_t y, int64_t x, const auto& row_at) {
        const Span &rows = planes.rows.cells_of(y), &columns = planes.columns.cells_of(x);
        const Float sum = sum_of_window(row_at, rows, columns);
        Float squares{};
        for_each_cell(row_at, rows, columns, 0,
                      [&](const Float& cell, int64_t) { squares += cell * cell; });
        return sum > Float{} ? squares / sum : Float{};
      });
}

template <class Element>
void spread_to_taken(const Planes<Element>& planes, const Bindings& memory,
                     const Tensor& gradient) {
  planes.spread_rows(
      memory, gradient,
      [&](const TaskOf<Element>& task, int64_t y, const auto& gradient_at, float* to) {
        const Span& rows = planes.rows.covering_of(y);
        for (int64_t x = 0; x < planes.in_width; ++x, to += kLanes) {
          Float sum{};
          const Span& columns = planes.columns.covering_of(x);
          for (int64_t row = rows.begin; row < rows.end; ++row)
            for (int64_t column = columns.begin; column < columns.end; ++column) {
              const int64_t here =
                  (y - planes.rows.cells_of(row).begin) * planes.pooling.kernel[1] + x -
                  planes.columns.cells_of(column).begin;
              const auto place =
                  load<Place>(planes.places(memory, task.group, row) + column * kLanes);
              const Int is_here = __builtin_convertvector(place, Int) == static_cast<int32_t>(here);
              sum += is_here ? load<Float>(gradient_at(row) + column * kLanes) : Float{};
            }
          store(to, sum);
        }
      });
}

/// Poseidon's own kernels. The kernels work in every layout, and use Caffe's divisor. If windows
/// choose a cell, the workspace has two bytes for each window: the place of this cell. The backward
/// pass computes the gradient of each cell from the windows that cover it.
template <class Element>
class CpuPooling final : public CpuLayer {
 public:
  CpuPooling(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        pooling_(static_cast<const Pooling&>(request.definition)),
        planes_(pooling_, needs_.output_format.layout, device.team()) {
    needs_.input_formats = {needs_.output_format};
    needs_.scratch_bytes = planes_.scratch_bytes();
    if (pooling_.stores_chosen_cell() && request.training) {
      if (pooling_.kernel[0] * pooling_.kernel[1] > UINT16_MAX)
        throw ConfigError(text("[pooling '", name_, "'] training supports windows of at most ",
                               UINT16_MAX, " cells"));
      needs_.workspace_bytes = planes_.bytes_of_places();
    }
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    switch (pooling_.method) {
      case PoolingMethod::kMax: return take_maxima(planes_, memory);
      case PoolingMethod::kAverage: return take_means(planes_, memory);
      case PoolingMethod::kStochastic:
        return step.phase == Phase::kTrain
                   ? take_by_chance(planes_, memory, *step.numbers, random_key(name_))
                   : take_weighted(planes_, memory);
    }
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    check(pooling_.has_gradient(step.phase), "the pooling has a gradient in this phase");
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(team(), memory, std::nullopt);
    switch (pooling_.method) {
      case PoolingMethod::kMax: return spread_to_maxima(planes_, memory, gradient);
      case PoolingMethod::kAverage: return spread_means(planes_, memory, gradient);
      case PoolingMethod::kStochastic: return spread_to_taken(planes_, memory, gradient);
    }
  }

 private:
  const Pooling& pooling_;
  Planes<Element> planes_;
};

}  // namespace
}  // namespace pooling_rows

std::unique_ptr<Layer> make_pooling(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<pooling_rows::CpuPooling>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
