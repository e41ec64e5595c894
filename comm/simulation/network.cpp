#include "comm/simulation/network.h"

#include <algorithm>

#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

std::string description(const Event& event, NetworkState& state, FrameTraffic& traffic) {
  const auto what = [&]() -> std::string {
    switch (event.kind) {
      case Event::Kind::kDeliver: return "receives " + traffic.description(event.index);
      case Event::Kind::kOpen: {
        const int target = state.connections[event.index].node[1];
        return "connects to " + (target < 0 ? "no node" : state.node(target).address);
      }
      case Event::Kind::kReportClosed: return text("learns that a connection ended: ", event.why);
      case Event::Kind::kWake: return "wakes at a deadline";
      case Event::Kind::kAction: return "completes work";
      case Event::Kind::kSent: return "";
    }
    return "";
  };
  const bool of_host = event.kind == Event::Kind::kSent;
  const SimulatedNode* node = of_host ? nullptr : &state.node(event.node);
  const double ms = std::chrono::duration<double, std::milli>(state.queue.now()).count();
  return text(ms, " ms: ",
              of_host ? text("a frame has left host ", event.node)
                      : node->address + " " + what() +
                            (node->crashed  ? " (dropped: it has crashed)"
                             : node->paused ? " (delayed: it is paused)"
                                            : ""));
}

}  // namespace

class SimulatedNetwork::NodeTransport final : public Transport {
 public:
  NodeTransport(SimulatedNetwork& network, int node) : network_(network), node_(node) {}

  Time now() const override { return network_.now(); }

  void present_as(const PeerIdentity& self) override {
    network_.state_.node(node_).presented = self;
  }

  ConnectionId connect(const std::string& address, const PeerIdentity& self,
                       NodeId called) override {
    const auto index = static_cast<uint32_t>(network_.state_.connections.size());
    const auto found = network_.node_at_.find(address);
    SimulatedConnection connection;
    connection.node = {node_, found == network_.node_at_.end() ? -1 : found->second};
    connection.caller = self;
    connection.called = called;
    connection.id[0] = network_.state_.new_id(node_, index, 0);
    network_.state_.connections.push_back(connection);
    network_.state_.queue.schedule({.at = network_.now() + 2 * network_.state_.model.delay,
                                    .kind = Event::Kind::kOpen,
                                    .node = node_,
                                    .index = index});
    return connection.id[0];
  }

  void send(ConnectionId to, const FrameHeader& header, Payload payload,
            Priority priority) override {
    network_.traffic_.send(node_, to, header, std::move(payload), priority);
  }

  void drop_bulk(ConnectionId id) override {
    network_.traffic_.drop_bulk(node_, network_.state_.node(node_).links[id].first);
  }

  void close(ConnectionId id) override {
    network_.close(network_.state_.node(node_).links[id].first, node_, "connection closed by peer",
                   false);
  }

  void wake_at(Time when) override {
    std::optional<Time>& due = network_.state_.node(node_).wake_due;
    if (due && *due <= when) return;
    due = std::max(when, network_.now());
    network_.state_.queue.schedule({.at = *due, .kind = Event::Kind::kWake, .node = node_});
  }

 private:
  SimulatedNetwork& network_;
  const int node_;
};

SimulatedNetwork::SimulatedNetwork(const NetworkModel& model, uint64_t seed)
    : state_{.model = model, .queue = {}, .nodes = {}, .links = {}, .connections = {}},
      traffic_(state_, seed) {}
SimulatedNetwork::~SimulatedNetwork() = default;

int SimulatedNetwork::add_node(const std::string& address, uint32_t host) {
  const int node = static_cast<int>(state_.nodes.size());
  state_.nodes.push_back(std::make_unique<SimulatedNode>());
  state_.node(node).transport = std::make_unique<NodeTransport>(*this, node);
  state_.node(node).address = address;
  state_.node(node).host = host;
  while (state_.links.size() <= host) state_.links.emplace_back(state_.model.bytes_per_second);
  node_at_[address] = node;
  return node;
}

Transport& SimulatedNetwork::transport(int node) { return *state_.node(node).transport; }

void SimulatedNetwork::attach(int node, Machine& machine) { state_.node(node).machine = &machine; }

void SimulatedNetwork::after(int node, Time wait, std::function<void()> action) {
  state_.queue.schedule({.at = now() + wait,
                         .kind = Event::Kind::kAction,
                         .node = node,
                         .index = actions_.put(std::move(action))});
}

// ---- connections

std::string SimulatedNetwork::refusal(const SimulatedConnection& connection) {
  const int target = connection.node[1];
  if (target < 0 || !is_up(target)) return kCallRefused;
  const SimulatedNode& listener = state_.node(target);
  if (listener.machine == nullptr) return kCallRefused;
  if (!state_.hears(connection, 0) || !state_.hears(connection, 1)) return text(kNoAnswer, "5 s");
  const std::string other = mismatch(connection.caller, connection.called, listener.presented);
  return other.empty() ? listener.machine->refusal(connection.caller) : other;
}

void SimulatedNetwork::open(uint32_t link) {
  const int target = state_.connections[link].node[1];
  const int caller = state_.connections[link].node[0];
  if (state_.connections[link].closed) return;
  const std::string refused = refusal(state_.connections[link]);
  if (!refused.empty()) {
    state_.connections[link].closed = true;
    state_.node(caller).machine->closed(state_.connections[link].id[0], refused);
    return;
  }
  SimulatedNode& listener = state_.node(target);
  const ConnectionId id = state_.new_id(target, link, 1);
  state_.connections[link].id[1] = id;
  state_.connections[link].open = true;
  const uint32_t near = state_.node(caller).host;
  if (state_.model.bytes_per_second > 0 && near != listener.host)
    state_.connections[link].senders = {state_.links[near].add(),
                                        state_.links[listener.host].add()};
  const PeerIdentity identity = state_.connections[link].caller, answers = listener.presented;
  // A paused listener accepts later the connection that its kernel accepts now.
  after(target, Time{0},
        [this, target, id, identity] { state_.node(target).machine->opened(id, identity); });
  after(caller, Time{0}, [this, caller, link, answers] {
    if (!state_.connections[link].closed && !state_.connections[link].shut[0])
      state_.node(caller).machine->opened(state_.connections[link].id[0], answers);
  });
}

void SimulatedNetwork::close(uint32_t link, int closer, const char* why, bool tell_closer) {
  SimulatedConnection& connection = state_.connections[link];
  if (connection.closed) return;
  // Frames that have left their host are still delivered; the close event follows them.
  if (closer >= 0) traffic_.drop_bulk(closer, link);
  for (size_t end = 0; end < 2; ++end) {
    if (connection.node[end] < 0 || (end == 1 && !connection.open)) continue;
    if (connection.node[end] == closer && !tell_closer) {
      connection.shut[end] = true;
      continue;
    }
    state_.queue.schedule({.at = std::max(now() + state_.model.delay, connection.last_arrival[end]),
                           .kind = Event::Kind::kReportClosed,
                           .node = connection.node[end],
                           .index = link,
                           .why = why});
  }
  if (!connection.open) connection.closed = true;
}

void SimulatedNetwork::crash(int node) {
  SimulatedNode& gone = state_.node(node);
  gone.crashed = true;
  for (const auto& [link, end] : gone.links) {
    if (link == UINT32_MAX || state_.connections[link].closed) continue;
    close(link, node, "connection reset by peer", false);
  }
}

void SimulatedNetwork::pause(int node) {
  state_.node(node).paused = true;
  traffic_.pause(node, true);
}

void SimulatedNetwork::resume(int node) {
  SimulatedNode& back = state_.node(node);
  back.paused = false;
  traffic_.pause(node, false);
  for (Event& event : back.held) {
    if (event.kind == Event::Kind::kWake) back.wake_due = now();
    event.at = now();
    state_.queue.schedule(std::move(event));
  }
  back.held.clear();
}

void SimulatedNetwork::cut(int a, int b) {
  for (uint32_t link = 0; link < state_.connections.size(); ++link) {
    const SimulatedConnection& connection = state_.connections[link];
    if (connection.closed || !connection.open) continue;
    if ((connection.node[0] == a && connection.node[1] == b) ||
        (connection.node[0] == b && connection.node[1] == a))
      close(link, -1, "connection reset by peer", true);
  }
}

bool SimulatedNetwork::is_up(int node) const { return state_.is_up(node); }

// ---- events

bool SimulatedNetwork::run(Time until) {
  while (!state_.queue.empty()) {
    if (state_.queue.next_at() > until) return false;
    const Event event = state_.queue.take();
    if (hook_) hook_(events_);
    if (describe_) describe_(text("event ", events_, ", ", description(event, state_, traffic_)));
    ++events_;
    if (happens(event)) dispatch(event);
  }
  return true;
}

/// Returns false for an event that does not happen now. Drops the events of a crashed process, and
/// stores the events of a paused process for resume().
bool SimulatedNetwork::happens(const Event& event) {
  if (event.kind == Event::Kind::kSent) return true;  // an event of a host, not of a node
  SimulatedNode& node = state_.node(event.node);
  if (!node.crashed && node.paused) node.held.push_back(event);
  return !node.crashed && !node.paused;
}

void SimulatedNetwork::dispatch(const Event& event) {
  SimulatedNode& node = state_.node(event.node);
  switch (event.kind) {
    case Event::Kind::kDeliver: return traffic_.deliver(event.index);
    case Event::Kind::kOpen: return open(event.index);
    case Event::Kind::kWake:
      if (node.wake_due != event.at) return;  // an earlier request replaced this one
      node.wake_due.reset();
      return node.machine->wake();
    case Event::Kind::kSent: return traffic_.has_left(static_cast<uint32_t>(event.node));
    case Event::Kind::kAction: return actions_.take(event.index)();
    case Event::Kind::kReportClosed: {
      SimulatedConnection& connection = state_.connections[event.index];
      const size_t end = connection.node[0] == event.node ? 0 : 1;
      if (!state_.hears(connection, end)) return;
      connection.closed = true;
      if (connection.shut[end]) return;
      connection.shut[end] = true;
      return node.machine->closed(connection.id[end], event.why);
    }
  }
}

}  // namespace poseidon::comm
