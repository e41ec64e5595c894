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

/// One activation (the output of a call, or an external input) and its readers.
struct Value {
  Shape shape;
  Format format;
  int producer = -1;           ///< index of a call; -1: an external input, part of the batch
  std::vector<int> consumers;  ///< indices of the calls that read it, in order
  bool needs_gradient = false;
  bool kept = false;  ///< true: no other value reuses its memory before the end of the step
};

/// One layer, or a reorder between formats, in the program.
struct Call {
  std::unique_ptr<layers::Layer> layer;
  int node = -1;  ///< the node that defines the layer; -1: a reorder
  const layers::Definition* definition = nullptr;  ///< definition of the node; null: a reorder
  int inputs_read_back = 0;  ///< the backward pass reads the first `inputs_read_back` inputs
  std::vector<int> inputs;   ///< indices of values
  int output = 0;            ///< index of a value
  /// True in training under two conditions. First, the call is a loss, or a loss depends on its
  /// output. Second, the call, or a call on which it depends, has parameters.
  bool runs_backward = false;
  bool makes_input_gradient = false;  ///< its backward pass computes an input gradient
  bool writes_factors = false;
  layers::FactorMemory factors;  ///< memory to which it writes its factors
  int gate = -1;       ///< node of the main program whose tensors it reads (Gate); -1: none
  int announces = -1;  ///< the node whose gradients are final after it (OnGradient); -1: none
  /// For shared parameters: the separate gradient that this call writes, and the gradient to which
  /// it is added.
  struct Added {
    std::span<const float> gradient;
    std::span<float> to;
  };
  std::vector<Added> added;
  layers::Bindings memory;
  struct {
    TraceRecorder::Label forward = 0, backward = 0, rebuild = 0;
  } labels = {};  ///< labels of spans in the trace; valid after Net::set_trace()
};

/// The moments (net/memory_plan.h) at which the calls of a program run. The moments of a test
/// program follow those of its training program, so the pieces of both can share memory in one
/// arena.
struct CallSchedule {
  int first = 0;
  int calls = 0;

  int forward(int call) const { return first + call; }
  int backward(int call) const { return end() - 1 - call; }
  int end() const { return first + 2 * calls; }
};

/// The executable form of a network: one layer object for each operation, with reorders between
/// formats, and a memory layout for all activations, gradients and workspaces. Calls run forward in
/// order, and backward in reverse order, after bind().
class Program {
 public:
  struct Options {
    bool training = true;
    std::map<std::string, layers::AlgorithmChoice> choices;
    std::vector<std::string> keep;      ///< layers whose output must be readable after the step
    std::vector<std::string> factored;  ///< layers that write factors
    int64_t factor_rows = 0;            ///< number of samples in stacked factors
    /// For a test program: its training program, whose input tensors and parameters it uses. A test
    /// program runs forward only. Passes of the two programs never overlap. Null: this is the main
    /// program of a net.
    const Program* trained = nullptr;
  };

  /// Adds all required pieces to `arena`. `network`, `factory` and `arena` must outlive this
  /// object. Throws ConfigError if a layer of Options::factored cannot write factors. Throws
  /// ConfigError if this device cannot share parameters between two layers, because it stores them
  /// in different orders.
  Program(const Network& network, layers::LayerFactory& factory, const Options& options,
          Arena& arena);

  /// Binds the arena's memory to all calls, after Arena::allocate(). Parameters binds its tensors
  /// separately.
  void bind();
  /// Whether this program added a piece to the arena.
  bool owns_piece(int piece) const { return piece >= first_piece_ && piece < end_piece_; }

  layers::LayerFactory& factory() { return factory_; }
  std::vector<Call>& calls() { return calls_; }
  const std::vector<Call>& calls() const { return calls_; }
  /// The call that computes a node; null if the node was fused into another one.
  Call* call_of(int node);
  /// The input tensors, and the object that writes batches to them (may be null).
  struct Input {
    Tensor samples, labels;      ///< labels: null if no layer reads them
    std::vector<Tensor> extras;  ///< in the order of Network::extras(), plain
    layers::BatchInput* writer;
  };
  Input input() const;
  /// The output of a node. Returns a null tensor if a later node was fused into this one, or if the
  /// output is not kept (Value::kept).
  Tensor kept_output(int node) const;
  size_t scratch_bytes() const {
    return pieces_.scratch < 0 ? 0 : arena_.bytes_of(pieces_.scratch);
  }
  /// The memory with which a call computes gradients from factors (Layer::rebuild). On an
  /// asynchronous device its scratch memory is separate, because this work may run concurrently
  /// with the passes.
  layers::Bindings rebuild_memory(const Call& call) const;
  /// The name of a call in messages: the layer's name, or a text such as "reorder after conv1" or
  /// "reorder of the input".
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
  std::vector<int> call_of_node_;  ///< -1: fused into the call of another node
  std::map<std::pair<int, Format>, int> reordered_;
  /// Indices of pieces in the arena; -1: none.
  struct ArenaPieces {
    std::vector<int> values;                        ///< by value
    std::vector<std::vector<int>> contributions;    ///< by value: gradients from its consumers
    std::vector<std::vector<int>> input_gradients;  ///< by call and input
    std::vector<int> workspaces;                    ///< by call
    int scratch = -1;                               ///< shared by all passes
    int rebuild_scratch = -1;                       ///< for Layer::rebuild; -1: use `scratch`
  } pieces_;
  CallSchedule schedule_;
  Arena& arena_;
  int first_piece_, end_piece_;
};

/// The values of a device tensor as fp32, in memory order, padding included. Blocks until the
/// values are computed.
std::vector<float> read_values(Device& device, std::span<const float> memory);
std::vector<float> read_values(Device& device, const Tensor& tensor);

}  // namespace poseidon::net
