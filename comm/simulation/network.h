#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "comm/simulation/frame_traffic.h"
#include "comm/wire/transport.h"

/// A network in virtual time. The state machines run on it unchanged, in one thread, with a clock
/// that jumps from event to event. All events are a function of the seed.
namespace poseidon::comm {

class SimulatedNetwork {
 public:
  SimulatedNetwork(const NetworkModel& model, uint64_t seed);
  ~SimulatedNetwork();

  /// Adds a node that others reach at `address`. Its transport lives as long as the network. Nodes
  /// of one host share the host's link. Frames between these nodes do not use the link. When all
  /// nodes are added, hosts must be numbered from 0 without a gap.
  int add_node(const std::string& address, uint32_t host);
  Transport& transport(int node);
  /// Sets the state machine of a node. `machine` must outlive the network, unless the node crashes
  /// before.
  void attach(int node, Machine& machine);

  /// Calls `action` as an event of `node` after `wait`. A paused node calls it after resume(), a
  /// crashed node never.
  void after(int node, Time wait, std::function<void()> action);

  // Faults.
  /// Ends the process of a node. Its connections are reset.
  void crash(int node);
  /// Pauses the process of a node until resume(). Its connections stay open.
  void pause(int node);
  void resume(int node);
  /// Breaks all open connections between two nodes.
  void cut(int a, int b);
  /// From now on nothing that `from` sends reaches `to`, not even the end of a connection. The two
  /// nodes cannot connect again.
  void block(int from, int to) { state_.blocked.insert({from, to}); }
  /// From now on a large frame between the two nodes is lost, and so are all later frames of the
  /// same connection and direction.
  void limit_mtu(int a, int b) { state_.small_mtu.insert({std::min(a, b), std::max(a, b)}); }
  bool is_up(int node) const;

  /// Sets a hook that runs before each event, with the event's number.
  void before_event(std::function<void(uint64_t n)> hook) { hook_ = std::move(hook); }
  /// Sets a hook that receives a line of text about each event, before it happens.
  void describe_events(std::function<void(const std::string&)> hook) {
    describe_ = std::move(hook);
  }

  /// Runs until no event remains, or the clock passes `until`. Returns false in the second case.
  bool run(Time until);

  Time now() const { return state_.queue.now(); }
  uint64_t events() const { return events_; }
  uint64_t frames() const { return traffic_.delivered(); }

 private:
  class NodeTransport;

  std::string refusal(const SimulatedConnection& connection);
  void open(uint32_t connection);
  void close(uint32_t connection, int closer, const char* why, bool tell_closer);
  bool happens(const Event& event);
  void dispatch(const Event& event);

  NetworkState state_;
  FrameTraffic traffic_;
  uint64_t events_ = 0;
  std::function<void(uint64_t)> hook_;
  std::function<void(const std::string&)> describe_;
  std::map<std::string, int> node_at_;
  Pool<std::function<void()>> actions_;
};

}  // namespace poseidon::comm
