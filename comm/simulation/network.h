#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/simulation/event_queue.h"
#include "comm/simulation/host_link.h"
#include "comm/simulation/pool.h"
#include "comm/wire/transport.h"

/// A network that exists in numbers only: the state machines run under it unchanged, in one thread,
/// on a clock that jumps from event to event. Everything that happens is a function of the seed.
namespace poseidon::comm {

/// What the simulated links do.
struct NetworkModel {
  double bytes_per_second = 0;                 ///< of each host's link, one direction; 0: no limit
  Time delay = std::chrono::microseconds(50);  ///< of every frame
  Time jitter{0};          ///< at most this more, by chance; a connection keeps its order
  double duplication = 0;  ///< chance that a bulk frame comes a second time
  double outdated = 0;     ///< chance that one of an older view, with other numbers, comes first
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(const NetworkModel& model, uint64_t seed);
  ~SimulatedNetwork();

  /// A node that others reach at `address`. Its transport lives as long as the network. Nodes of
  /// one host share its link, which what they send each other does not cross.
  int add_node(const std::string& address, uint32_t host);
  Transport& transport(int node);
  /// `machine` must outlive the network, or the node's crash.
  void attach(int node, Machine& machine);

  /// Calls `action` on behalf of `node`: not while it is paused, never once it has crashed.
  void after(int node, Time wait, std::function<void()> action);

  // Faults.
  /// The process is gone: its connections are reset.
  void crash(int node);
  /// The process stands still, for ever or for a while; its connections stay.
  void pause(int node);
  void resume(int node);
  /// One connection between two nodes breaks, if there is one.
  void cut(int a, int b);
  bool is_up(int node) const;

  /// Before each event: whatever the test wants to do at event number `n`.
  void before_event(std::function<void(uint64_t n)> hook) { hook_ = std::move(hook); }

  /// Runs until nothing is left to happen or the clock passes `until`. False: the clock ran out.
  bool run(Time until);

  Time now() const { return queue_.now(); }
  uint64_t events() const { return events_; }
  uint64_t frames() const { return frames_; }

 private:
  class NodeTransport;
  struct Node;
  struct Connection;
  struct Frame;

  double chance();
  void send(int node, ConnectionId id, const FrameHeader& header, Payload payload,
            Priority priority);
  void serve(uint32_t host);
  Time arrival(const Frame& frame);
  void transmit(uint32_t frame);
  void add_disturbances(Frame frame, Time at);
  void deliver(uint32_t frame);
  std::string refusal(const Connection& connection) const;
  void open(uint32_t link);
  template <class Action>
  void for_sender(int node, uint32_t link, Action action);
  void drop_bulk(int node, uint32_t link);
  void close(uint32_t link, int closer, const char* why, bool tell_closer);
  void set_paused(int node, bool paused);
  bool happens(const Event& event);
  void dispatch(const Event& event);

  const NetworkModel model_;
  uint64_t random_;
  uint64_t events_ = 0, frames_ = 0;
  EventQueue queue_;
  std::function<void(uint64_t)> hook_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, int> node_at_;
  std::vector<HostLink> links_;  ///< by host
  std::vector<Connection> connections_;
  Pool<Frame> under_way_;
  Pool<std::function<void()>> actions_;
};

}  // namespace poseidon::comm
