#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulation/event_queue.h"
#include "comm/simulation/host_link.h"
#include "comm/simulation/network_model.h"
#include "comm/simulation/pool.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A process of a simulated network.
struct SimulatedNode {
  std::string address;
  std::unique_ptr<Transport> transport;
  Machine* machine = nullptr;
  PeerIdentity presented;  ///< the identity with which the node accepts connections
  uint32_t host = 0;
  bool crashed = false, paused = false;
  /// By ConnectionId of this node: index of the connection, and end. ConnectionId 0 is not used.
  std::vector<std::pair<uint32_t, int>> links = {{UINT32_MAX, 0}};
  std::optional<Time> wake_due;
  std::vector<Event> held;  ///< events that wait while the node is paused
};

/// A connection between two nodes. End 0 is the node that requested the connection.
struct SimulatedConnection {
  std::array<int, 2> node{};
  std::array<ConnectionId, 2> id{};  ///< as each end knows it
  PeerIdentity caller;
  NodeId called;
  bool open = false, closed = false;
  std::array<bool, 2> shut{};  ///< by end: it has closed the connection, and receives nothing more
  std::array<bool, 2> stalled{};  ///< by end: a packet was lost, so nothing more arrives
  /// By end. No later frame arrives before this time, so frames stay in order.
  std::array<Time, 2> last_arrival{};
  /// Each end's sender on the link of its host; nullopt: the connection is within a host, or links
  /// have no rate limit.
  std::optional<std::array<HostLink::Sender, 2>> senders;
};

/// The state that the parts of a simulated network share.
struct NetworkState {
  const NetworkModel model;
  EventQueue queue;
  std::vector<std::unique_ptr<SimulatedNode>> nodes;
  std::vector<HostLink> links;  ///< by host
  std::vector<SimulatedConnection> connections;
  std::set<std::pair<int, int>> blocked = {};  ///< (from, to): nothing arrives
  std::set<std::pair<int, int>> small_mtu =
      {};  ///< pairs, lower index first: large packets are lost

  SimulatedNode& node(int index) { return *nodes[static_cast<size_t>(index)]; }
  /// Whether frames for this end of a connection arrive.
  bool hears(const SimulatedConnection& connection, size_t end) const {
    return !blocked.contains({connection.node[1 - end], connection.node[end]});
  }
  bool is_up(int index) const { return !nodes[static_cast<size_t>(index)]->crashed; }
  /// Returns a new id by which a node knows its end of a connection.
  ConnectionId new_id(int index, uint32_t connection, int end) {
    node(index).links.emplace_back(connection, end);
    return static_cast<ConnectionId>(node(index).links.size() - 1);
  }
};

/// The frames in flight in a simulated network.
class FrameTraffic {
 public:
  FrameTraffic(NetworkState& state, uint64_t seed) : state_(state), random_(seed) {}

  void send(int node, ConnectionId id, const FrameHeader& header, Payload payload,
            Priority priority);
  /// Drops the bulk frames that a node's end of a connection has not sent yet.
  void drop_bulk(int node, uint32_t connection);
  /// Pauses or resumes the bulk frames of a node.
  void pause(int node, bool paused);
  /// Called when the frame that was leaving a host has left. Starts to send the next one.
  void has_left(uint32_t host);
  void deliver(uint32_t frame);
  /// Describes a frame: "sum of layer 3, chunk 5, step 2, 1024 bytes, from s1". Steps count from 0.
  std::string description(uint32_t frame);

  uint64_t delivered() const { return delivered_; }

 private:
  struct Frame {
    uint32_t connection = 0;
    int to_end = 0;
    FrameHeader header;
    Payload payload;
    bool outdated = false;
    uint64_t bytes() const { return kHeaderBytes + header.length; }
  };

  double chance();
  void serve(uint32_t host);
  Time arrival(const Frame& frame);
  void transmit(uint32_t frame);
  bool is_stalled(const Frame& frame);
  void add_disturbances(Frame frame, Time at);
  SimulatedConnection& connection_of(const Frame& frame) {
    return state_.connections[frame.connection];
  }
  template <class Action>
  void for_sender(int node, uint32_t connection, Action action);

  NetworkState& state_;
  uint64_t random_;
  uint64_t delivered_ = 0;
  Pool<Frame> under_way_;
};

}  // namespace poseidon::comm
