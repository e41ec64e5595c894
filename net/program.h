#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "layers/layer.h"
#include "net/arena.h"
#include "net/fusion.h"

namespace poseidon::net {

/// One activation: what a call writes and later calls read.
struct Value {
  Shape shape;
  Format format;
  int producer = -1;           ///< call; -1: it comes with the batch
  std::vector<int> consumers;  ///< calls, in order
  bool needs_gradient = false;
  bool kept = false;  ///< its memory is not reused
};

/// One layer (or reorder between formats) in its place in the program.
struct Call {
  std::unique_ptr<layers::Layer> layer;
  int node = -1;                                   ///< whose parameters it has; -1: a reorder
  const layers::Definition* definition = nullptr;  ///< of the node; nullptr: a reorder
  int inputs_read_back = 0;    ///< how many inputs, from the first, the backward pass reads
  std::vector<int> inputs;     ///< values
  int output = 0;              ///< value
  bool runs_backward = false;  ///< a loss depends on it, and a gradient is wanted of it
  bool gives_factors = false;
  layers::FactorMemory factors;  ///< where it puts them
  int gate = -1;                 ///< the node whose tensors the forward pass reads; -1: none
  int announces = -1;            ///< the node whose gradients are final after it; -1: none
  /// Of shared parameters: gradients of this call that are then added to others.
  struct Added {
    std::span<const float> gradient;
    std::span<float> to;
  };
  std::vector<Added> added;
  layers::Bindings memory;
  struct {
    TraceRecorder::Label forward = 0, backward = 0, rebuild = 0;
  } labels = {};  ///< while there is a trace
};

/// When the calls of a program run, in the sequence that an arena lays out.
struct Moments {
  int first = 0;
  int calls = 0;

  int forward(int call) const { return first + call; }
  int backward(int call) const { return end() - 1 - call; }
  int end() const { return first + 2 * calls; }
};

/// The operations of a network with their layers made, the reorders between formats put in, and the
/// memory of every activation, gradient and workspace laid out. Calls run forward in order, and
/// backward in reverse, once the memory is taken.
class Program {
 public:
  struct Options {
    bool training = true;
    std::map<std::string, layers::Choice> choices;
    std::vector<std::string> keep;      ///< layers whose output must survive the step
    std::vector<std::string> factored;  ///< layers that give factors
    int64_t factor_rows = 0;            ///< samples of all factors that are stacked
    /// The program of training beside which this one runs tests: forward only, with its batches,
    /// and with parameters in its layers' orders. None of its passes goes on while one of the other
    /// does.
    const Program* trained = nullptr;
  };

  /// Adds what it wants of memory to `arena`, which must outlive it.
  Program(const Network& network, layers::LayerFactory& factory, const Options& options,
          Arena& arena);

  /// Gives all calls their memory, once the arena has it.
  void bind();
  /// Whether it added this piece of the arena.
  bool wants(int piece) const { return piece >= first_piece_ && piece < end_piece_; }

  layers::LayerFactory& factory() { return factory_; }
  std::vector<Call>& calls() { return calls_; }
  const std::vector<Call>& calls() const { return calls_; }
  /// The call that has a node's parameters; nullptr where the node was fused into another.
  Call* call_of(int node);
  /// Where batches come to, and what writes them there, which may be null.
  struct Input {
    Tensor samples, labels;      ///< no labels where no layer reads them
    std::vector<Tensor> extras;  ///< of Network::extras(), plain
    layers::BatchInput* writer;
  };
  Input input() const;
  /// The output of a node; a null tensor when it was fused into a later one or its memory is
  /// reused.
  Tensor kept_output(int node) const;
  size_t scratch_bytes() const {
    return places_.scratch < 0 ? 0 : arena_.bytes_of(places_.scratch);
  }
  /// The memory of a call that rebuilds gradients from factors, which it may do beside the passes.
  layers::Bindings rebuild_memory(const Call& call) const;
  /// Whether the backward pass makes the gradient of one of its inputs.
  bool wants_input_gradient(const Call& call) const;
  /// The name a person knows a call by.
  std::string name_of(const Call& call) const;

 private:
  void check_factored() const;
  void add_operation(const Operation& operation);
  int in_format(int value, Format format);
  int add_value(Value value);
  void mark_backward();
  void place_activations();
  void place_gradients();
  void place_workspaces();
  void bind(size_t call);
  const Call* trained_call(const layers::Definition& definition) const;
  int trained_piece(size_t value) const;
  bool may_overwrite(const Call& call, int input) const;
  Tensor tensor(int value) const;

  const Network& network_;
  layers::LayerFactory& factory_;
  Options options_;
  const std::unique_ptr<layers::BatchInput> batch_input_;
  std::vector<Call> calls_;
  std::vector<Value> values_;
  std::vector<int> value_of_node_;
  std::vector<int> call_of_node_;  ///< -1: it was fused into another
  std::map<std::pair<int, Format>, int> reordered_;
  /// Pieces of the arena; -1: none.
  struct Places {
    std::vector<int> values;                        ///< by value
    std::vector<std::vector<int>> contributions;    ///< by value: gradients from its consumers
    std::vector<std::vector<int>> input_gradients;  ///< by call and input
    std::vector<int> workspaces;                    ///< by call
    int scratch = -1;                               ///< of all passes
    int rebuild_scratch = -1;  ///< of what goes on beside them; -1: it is that of the passes
  } places_;
  Moments moments_;
  Arena& arena_;
  int first_piece_, end_piece_;
};

/// The values of a tensor of the device, as they lie there. Blocks until they are computed.
std::vector<float> read_values(Device& device, std::span<const float> memory);
std::vector<float> read_values(Device& device, const Tensor& tensor);

}  // namespace poseidon::net
