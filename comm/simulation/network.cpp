#include "comm/simulation/network.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <set>

#include "core/error.h"

namespace poseidon::comm {

namespace {

/// splitmix64.
uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

}  // namespace

/// A connection between two nodes; end 0 has asked for it.
struct SimulatedNetwork::Connection {
  std::array<int, 2> node{};
  std::array<ConnectionId, 2> id{};  ///< as each end knows it
  PeerIdentity caller;
  NodeId called;
  bool open = false, closed = false;
  std::array<bool, 2> shut{};          ///< an end has closed it and hears no more
  std::array<Time, 2> last_arrival{};  ///< at each end: a connection keeps its order
  /// Each end's turns on the link of its host, unless there is no link to cross.
  std::optional<std::array<HostLink::Sender, 2>> senders;
};

struct SimulatedNetwork::Frame {
  uint32_t link = 0;
  int to_end = 0;
  FrameHeader header;
  Payload payload;
  bool outdated = false;
  uint64_t bytes() const { return kHeaderBytes + header.length; }
};

struct SimulatedNetwork::Node {
  std::unique_ptr<NodeTransport> transport;
  Machine* machine = nullptr;
  PeerIdentity presented;  ///< as whom it accepts connections
  uint32_t host = 0;
  bool crashed = false, paused = false;
  std::vector<std::pair<uint32_t, int>> links;  ///< by own ConnectionId: connection and end
  std::optional<Time> wake_due;
  std::vector<Event> held;  ///< while paused
};

class SimulatedNetwork::NodeTransport final : public Transport {
 public:
  NodeTransport(SimulatedNetwork& network, int node) : network_(network), node_(node) {}

  Time now() const override { return network_.now(); }

  void present_as(const PeerIdentity& self) override {
    network_.nodes_[static_cast<size_t>(node_)]->presented = self;
  }

  ConnectionId connect(const std::string& address, const PeerIdentity& self,
                       NodeId called) override {
    const auto index = static_cast<uint32_t>(network_.connections_.size());
    const auto found = network_.node_at_.find(address);
    Connection connection;
    connection.node = {node_, found == network_.node_at_.end() ? -1 : found->second};
    connection.caller = self;
    connection.called = called;
    connection.id[0] = new_id(node_, index, 0);
    network_.connections_.push_back(connection);
    network_.queue_.schedule({.at = network_.now() + 2 * network_.model_.delay,
                              .kind = Event::Kind::kOpen,
                              .node = node_,
                              .index = index});
    return connection.id[0];
  }

  void send(ConnectionId to, const FrameHeader& header, Payload payload,
            Priority priority) override {
    network_.send(node_, to, header, std::move(payload), priority);
  }

  void drop_bulk(ConnectionId id) override {
    network_.drop_bulk(node_, network_.nodes_[static_cast<size_t>(node_)]->links[id].first);
  }

  void close(ConnectionId id) override {
    network_.close(network_.nodes_[static_cast<size_t>(node_)]->links[id].first, node_,
                   "connection closed by peer", false);
  }

  void wake_at(Time when) override {
    std::optional<Time>& due = network_.nodes_[static_cast<size_t>(node_)]->wake_due;
    if (due && *due <= when) return;
    due = std::max(when, network_.now());
    network_.queue_.schedule({.at = *due, .kind = Event::Kind::kWake, .node = node_});
  }

  ConnectionId new_id(int node, uint32_t link, int end) {
    auto& links = network_.nodes_[static_cast<size_t>(node)]->links;
    links.emplace_back(link, end);
    return static_cast<ConnectionId>(links.size() - 1);
  }

 private:
  SimulatedNetwork& network_;
  const int node_;
};

SimulatedNetwork::SimulatedNetwork(const NetworkModel& model, uint64_t seed)
    : model_(model), random_(seed) {}
SimulatedNetwork::~SimulatedNetwork() = default;

int SimulatedNetwork::add_node(const std::string& address, uint32_t host) {
  const int node = static_cast<int>(nodes_.size());
  nodes_.push_back(std::make_unique<Node>());
  nodes_.back()->transport = std::make_unique<NodeTransport>(*this, node);
  nodes_.back()->links.emplace_back(UINT32_MAX, 0);  // 0 is no connection
  nodes_.back()->host = host;
  while (links_.size() <= host) links_.emplace_back(model_.bytes_per_second);
  node_at_[address] = node;
  return node;
}

Transport& SimulatedNetwork::transport(int node) {
  return *nodes_[static_cast<size_t>(node)]->transport;
}

void SimulatedNetwork::attach(int node, Machine& machine) {
  nodes_[static_cast<size_t>(node)]->machine = &machine;
}

double SimulatedNetwork::chance() {
  return static_cast<double>(next_random(random_) >> 11) * 0x1p-53;
}

void SimulatedNetwork::after(int node, Time wait, std::function<void()> action) {
  queue_.schedule({.at = now() + wait,
                   .kind = Event::Kind::kAction,
                   .node = node,
                   .index = actions_.put(std::move(action))});
}

// ---- frames

void SimulatedNetwork::send(int node, ConnectionId id, const FrameHeader& header, Payload payload,
                            Priority priority) {
  const auto [link, end] = nodes_[static_cast<size_t>(node)]->links[id];
  if (connections_[link].closed || !connections_[link].open) return;
  if (connections_[link].shut[static_cast<size_t>(end)]) return;
  const uint32_t index = under_way_.put(
      {.link = link, .to_end = 1 - end, .header = header, .payload = std::move(payload)});
  Frame& frame = under_way_[index];
  if (!frame.payload.bytes.empty()) frame.header.length = frame.payload.bytes.size();
  if (!connections_[link].senders || priority == kUrgent) return transmit(index);
  const uint32_t host = nodes_[static_cast<size_t>(node)]->host;
  links_[host].push((*connections_[link].senders)[static_cast<size_t>(end)], index, priority,
                    frame.bytes());
  serve(host);
}

/// Puts the most urgent frame on the link of a host if that is free.
void SimulatedNetwork::serve(uint32_t host) {
  const std::optional<uint32_t> frame = links_[host].next(now());
  if (!frame) return;
  transmit(*frame);
  queue_.schedule({.at = links_[host].egress_free(),
                   .kind = Event::Kind::kSent,
                   .node = static_cast<int>(host)});
}

/// When the last byte of a frame that leaves now has come.
Time SimulatedNetwork::arrival(const Frame& frame) {
  Connection& connection = connections_[frame.link];
  const auto end = static_cast<size_t>(frame.to_end);
  Time at = now() + model_.delay;
  if (model_.jitter.count() > 0)
    at += Time(static_cast<int64_t>(chance() * static_cast<double>(model_.jitter.count())));
  if (connection.senders) {
    const auto host = [&](size_t of) {
      return nodes_[static_cast<size_t>(connection.node[of])]->host;
    };
    at += links_[host(1 - end)].leaves_at(frame.bytes(), now()) - now();
    at = links_[host(end)].comes_at(frame.bytes(), at);
  }
  return connection.last_arrival[end] = std::max(at, connection.last_arrival[end]);
}

void SimulatedNetwork::transmit(uint32_t index) {
  const Frame& frame = under_way_[index];
  const Connection& connection = connections_[frame.link];
  if (connection.closed) return static_cast<void>(under_way_.take(index));
  const Time at = arrival(frame);
  const int to = connection.node[static_cast<size_t>(frame.to_end)];
  if (frame.header.kind >= FrameKind::kContribution) add_disturbances(frame, at);
  queue_.schedule({.at = at, .kind = Event::Kind::kDeliver, .node = to, .index = index});
}

/// Frames that should not be there: one of an older view before `frame`, a repeated one after it.
void SimulatedNetwork::add_disturbances(Frame frame, Time at) {
  const int node = connections_[frame.link].node[static_cast<size_t>(frame.to_end)];
  if (model_.duplication > 0 && chance() < model_.duplication) {
    const double wait = chance() * 4 * static_cast<double>(model_.jitter.count());
    queue_.schedule({.at = at + model_.delay + Time(static_cast<int64_t>(wait)),
                     .kind = Event::Kind::kDeliver,
                     .node = node,
                     .index = under_way_.put(frame)});
  }
  if (model_.outdated > 0 && chance() < model_.outdated) {
    --frame.header.view;
    frame.outdated = true;
    queue_.schedule(
        {.at = at, .kind = Event::Kind::kDeliver, .node = node, .index = under_way_.put(frame)});
  }
}

void SimulatedNetwork::deliver(uint32_t index) {
  const Frame frame = under_way_.take(index);
  const Connection& connection = connections_[frame.link];
  const auto end = static_cast<size_t>(frame.to_end);
  if (connection.closed || connection.shut[end]) return;
  ++frames_;
  Machine& machine = *nodes_[static_cast<size_t>(connection.node[end])]->machine;
  const ConnectionId id = connection.id[end];
  if (frame.header.kind < FrameKind::kContribution)
    return machine.received(id, frame.header, frame.payload.bytes);
  const std::span<std::byte> place = machine.place(id, frame.header);
  if (place.empty()) return;
  // Bytes are read as late as can be: whoever reuses memory too early is found out.
  if (frame.outdated)
    std::fill(place.begin(), place.end(), std::byte{0x3E});
  else if (!frame.payload.bytes.empty())
    std::copy(frame.payload.bytes.begin(), frame.payload.bytes.end(), place.begin());
  machine.received(id, frame.header, place);
}

// ---- connections

std::string SimulatedNetwork::refusal(const Connection& connection) const {
  const int target = connection.node[1];
  if (target < 0 || !is_up(target)) return "connection refused";
  const Node& listener = *nodes_[static_cast<size_t>(target)];
  if (listener.machine == nullptr) return "connection refused";
  const std::string other = mismatch(connection.caller, connection.called, listener.presented);
  return other.empty() ? listener.machine->refusal(connection.caller) : other;
}

void SimulatedNetwork::open(uint32_t link) {
  const int target = connections_[link].node[1];
  const int caller = connections_[link].node[0];
  if (connections_[link].closed) return;
  const std::string refused = refusal(connections_[link]);
  if (!refused.empty()) {
    connections_[link].closed = true;
    nodes_[static_cast<size_t>(caller)]->machine->closed(connections_[link].id[0], refused);
    return;
  }
  Node& listener = *nodes_[static_cast<size_t>(target)];
  const ConnectionId id = listener.transport->new_id(target, link, 1);
  connections_[link].id[1] = id;
  connections_[link].open = true;
  const uint32_t near = nodes_[static_cast<size_t>(caller)]->host;
  if (model_.bytes_per_second > 0 && near != listener.host)
    connections_[link].senders = {links_[near].add(), links_[listener.host].add()};
  const PeerIdentity identity = connections_[link].caller, answers = listener.presented;
  // A listener that stands still accepts later what its kernel has accepted now.
  after(target, Time{0}, [this, target, id, identity] {
    nodes_[static_cast<size_t>(target)]->machine->opened(id, identity);
  });
  after(caller, Time{0}, [this, caller, link, answers] {
    if (!connections_[link].closed && !connections_[link].shut[0])
      nodes_[static_cast<size_t>(caller)]->machine->opened(connections_[link].id[0], answers);
  });
}

void SimulatedNetwork::close(uint32_t link, int closer, const char* why, bool tell_closer) {
  Connection& connection = connections_[link];
  if (connection.closed || link == UINT32_MAX) return;
  // What was sent before is still delivered: the end comes behind it.
  if (closer >= 0) drop_bulk(closer, link);
  for (size_t end = 0; end < 2; ++end) {
    if (connection.node[end] < 0 || (end == 1 && !connection.open)) continue;
    if (connection.node[end] == closer && !tell_closer) {
      connection.shut[end] = true;
      continue;
    }
    queue_.schedule({.at = std::max(now() + model_.delay, connection.last_arrival[end]),
                     .kind = Event::Kind::kTellClosed,
                     .node = connection.node[end],
                     .index = link,
                     .why = why});
  }
  if (!connection.open) connection.closed = true;
}

void SimulatedNetwork::drop_bulk(int node, uint32_t link) {
  for_sender(node, link, [this](HostLink& host, HostLink::Sender sender) {
    for (const uint32_t frame : host.drop(sender)) under_way_.take(frame);
  });
}

template <class Action>
void SimulatedNetwork::for_sender(int node, uint32_t link, Action action) {
  if (link == UINT32_MAX || !connections_[link].senders) return;
  const Connection& connection = connections_[link];
  const size_t end = connection.node[0] == node ? 0 : 1;
  action(links_[nodes_[static_cast<size_t>(node)]->host], (*connection.senders)[end]);
}

void SimulatedNetwork::crash(int node) {
  Node& gone = *nodes_[static_cast<size_t>(node)];
  gone.crashed = true;
  for (const auto& [link, end] : gone.links) {
    if (link == UINT32_MAX || connections_[link].closed) continue;
    close(link, node, "connection reset by peer", false);
  }
}

void SimulatedNetwork::pause(int node) { set_paused(node, true); }

void SimulatedNetwork::set_paused(int node, bool paused) {
  Node& one = *nodes_[static_cast<size_t>(node)];
  one.paused = paused;
  for (const auto& [link, end] : one.links)
    for_sender(node, link,
               [paused](HostLink& host, HostLink::Sender sender) { host.pause(sender, paused); });
  serve(one.host);
}

void SimulatedNetwork::resume(int node) {
  Node& back = *nodes_[static_cast<size_t>(node)];
  set_paused(node, false);
  for (Event& event : back.held) {
    if (event.kind == Event::Kind::kWake) back.wake_due = now();
    event.at = now();
    queue_.schedule(std::move(event));
  }
  back.held.clear();
}

void SimulatedNetwork::cut(int a, int b) {
  for (uint32_t link = 0; link < connections_.size(); ++link) {
    const Connection& connection = connections_[link];
    if (connection.closed || !connection.open) continue;
    if ((connection.node[0] == a && connection.node[1] == b) ||
        (connection.node[0] == b && connection.node[1] == a))
      close(link, -1, "connection reset by peer", true);
  }
}

bool SimulatedNetwork::is_up(int node) const { return !nodes_[static_cast<size_t>(node)]->crashed; }

// ---- events

bool SimulatedNetwork::run(Time until) {
  while (!queue_.empty()) {
    if (queue_.next_at() > until) return false;
    const Event event = queue_.take();
    if (hook_) hook_(events_);
    ++events_;
    if (happens(event)) dispatch(event);
  }
  return true;
}

/// Nothing happens to a process that has crashed, or for the time being to one that stands still.
bool SimulatedNetwork::happens(const Event& event) {
  if (event.kind == Event::Kind::kSent) return true;  // it happens to a host
  Node& node = *nodes_[static_cast<size_t>(event.node)];
  if (!node.crashed && node.paused) node.held.push_back(event);
  return !node.crashed && !node.paused;
}

void SimulatedNetwork::dispatch(const Event& event) {
  if (event.kind == Event::Kind::kSent) {
    links_[static_cast<size_t>(event.node)].has_left(now());
    return serve(static_cast<uint32_t>(event.node));
  }
  Node& node = *nodes_[static_cast<size_t>(event.node)];
  switch (event.kind) {
    case Event::Kind::kDeliver: return deliver(event.index);
    case Event::Kind::kOpen: return open(event.index);
    case Event::Kind::kWake:
      if (node.wake_due != event.at) return;  // an earlier request took its place
      node.wake_due.reset();
      return node.machine->wake();
    case Event::Kind::kSent: return;
    case Event::Kind::kAction: return actions_.take(event.index)();
    case Event::Kind::kTellClosed: {
      Connection& connection = connections_[event.index];
      const size_t end = connection.node[0] == event.node ? 0 : 1;
      connection.closed = true;
      if (connection.shut[end]) return;
      connection.shut[end] = true;
      return node.machine->closed(connection.id[end], event.why);
    }
  }
}

}  // namespace poseidon::comm
