#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "comm/simulation/frame_traffic.h"
#include "comm/wire/transport.h"

/// A network that exists in numbers only: the state machines run under it unchanged, in one thread,
/// on a clock that jumps from event to event. Everything that happens is a function of the seed.
namespace poseidon::comm {

class SimulatedNetwork {
 public:
  SimulatedNetwork(const NetworkModel& model, uint64_t seed);
  ~SimulatedNetwork();

  /// A node that others reach at `address`. Its transport lives as long as the network. Nodes of
  /// one host share its link, which what they send each other does not cross. Hosts count from 0,
  /// in the end without a gap.
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
  /// Nothing that `from` sends reaches `to` any more, nor that it has closed a connection; the two
  /// cannot connect anew.
  void deafen(int from, int to) { state_.deaf.insert({from, to}); }
  /// From now on a large frame from one of the two to the other is lost, and all that their
  /// connection was to carry after it.
  void narrow(int a, int b) { state_.narrow.insert({std::min(a, b), std::max(a, b)}); }
  bool is_up(int node) const;

  /// Before each event: whatever the test wants to do at event number `n`.
  void before_event(std::function<void(uint64_t n)> hook) { hook_ = std::move(hook); }

  /// Runs until nothing is left to happen or the clock passes `until`. False: the clock ran out.
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
  std::map<std::string, int> node_at_;
  Pool<std::function<void()>> actions_;
};

}  // namespace poseidon::comm
