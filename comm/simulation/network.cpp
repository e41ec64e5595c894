#include "comm/simulation/network.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <set>

#include "core/error.h"

namespace poseidon::comm {

namespace {

constexpr size_t kFrameOverhead = kHeaderBytes;

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
};

struct SimulatedNetwork::Frame {
  uint32_t link = 0;
  int to_end = 0;
  FrameHeader header;
  Payload payload;
  bool outdated = false;
};

struct SimulatedNetwork::Event {
  enum class Kind : uint8_t { kDeliver, kOpen, kTellClosed, kWake, kAction, kPump };
  Time at{0};
  uint64_t sequence = 0;
  Kind kind = Kind::kWake;
  int node = 0;
  uint32_t index = 0;    ///< of a frame, connection, action
  std::string why = {};  ///< of a closing
  bool later_than(const Event& other) const {
    return at != other.at ? at > other.at : sequence > other.sequence;
  }
};

/// A frame that waits for its node's link.
struct SimulatedNetwork::Waiting {
  Priority priority = 0;
  uint32_t frame = 0;
  uint64_t sequence = 0;
  /// For a heap whose front is the most urgent one.
  bool operator<(const Waiting& other) const {
    return priority != other.priority ? priority > other.priority : sequence > other.sequence;
  }
};

struct SimulatedNetwork::Node {
  std::unique_ptr<NodeTransport> transport;
  Machine* machine = nullptr;
  PeerIdentity presented;  ///< as whom it accepts connections
  bool crashed = false, paused = false;
  std::vector<std::pair<uint32_t, int>> links;  ///< by own ConnectionId: connection and end
  Time egress_free{0}, ingress_free{0};
  bool pumping = false;
  std::optional<Time> wake_due;
  std::vector<Waiting> waiting;  ///< with limited bandwidth: a heap, most urgent first
  std::vector<Event> held;       ///< while paused
};

class SimulatedNetwork::NodeTransport final : public Transport {
 public:
  NodeTransport(SimulatedNetwork& network, int node) : network_(network), node_(node) {}

  Time now() const override { return network_.now_; }

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
    network_.schedule({.at = network_.now_ + 2 * network_.model_.delay,
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
    due = std::max(when, network_.now_);
    network_.schedule({.at = *due, .kind = Event::Kind::kWake, .node = node_});
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

int SimulatedNetwork::add_node(const std::string& address) {
  const int node = static_cast<int>(nodes_.size());
  nodes_.push_back(std::make_unique<Node>());
  nodes_.back()->transport = std::make_unique<NodeTransport>(*this, node);
  nodes_.back()->links.emplace_back(UINT32_MAX, 0);  // 0 is no connection
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

void SimulatedNetwork::schedule(Event event) {
  event.sequence = sequence_++;
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(),
                 [](const Event& a, const Event& b) { return a.later_than(b); });
}

void SimulatedNetwork::after(int node, Time wait, std::function<void()> action) {
  uint32_t index = 0;
  if (free_actions_.empty()) {
    index = static_cast<uint32_t>(actions_.size());
    actions_.emplace_back();
  } else {
    index = free_actions_.back();
    free_actions_.pop_back();
  }
  actions_[index] = std::move(action);
  schedule({.at = now_ + wait, .kind = Event::Kind::kAction, .node = node, .index = index});
}

// ---- frames

void SimulatedNetwork::send(int node, ConnectionId id, const FrameHeader& header, Payload payload,
                            Priority priority) {
  const auto [link, end] = nodes_[static_cast<size_t>(node)]->links[id];
  if (connections_[link].closed || !connections_[link].open) return;
  if (connections_[link].shut[static_cast<size_t>(end)]) return;
  const uint32_t index =
      new_frame({.link = link, .to_end = 1 - end, .header = header, .payload = std::move(payload)});
  Frame& frame = frames_in_pool_[index];
  if (!frame.payload.bytes.empty()) frame.header.length = frame.payload.bytes.size();
  if (model_.bytes_per_second <= 0) return transmit(node, index);
  Node& sender = *nodes_[static_cast<size_t>(node)];
  sender.waiting.push_back({priority, index, sequence_++});
  std::push_heap(sender.waiting.begin(), sender.waiting.end());
  pump(node);
}

uint32_t SimulatedNetwork::new_frame(Frame frame) {
  if (free_frames_.empty()) {
    frames_in_pool_.push_back(std::move(frame));
    return static_cast<uint32_t>(frames_in_pool_.size() - 1);
  }
  const uint32_t index = free_frames_.back();
  free_frames_.pop_back();
  frames_in_pool_[index] = std::move(frame);
  return index;
}

/// Puts the most urgent frame on the node's link as soon as that is free.
void SimulatedNetwork::pump(int node) {
  Node& sender = *nodes_[static_cast<size_t>(node)];
  if (sender.pumping || sender.waiting.empty()) return;
  if (sender.egress_free > now_) {
    sender.pumping = true;
    return schedule({.at = sender.egress_free, .kind = Event::Kind::kPump, .node = node});
  }
  std::pop_heap(sender.waiting.begin(), sender.waiting.end());
  const uint32_t frame = sender.waiting.back().frame;
  sender.waiting.pop_back();
  transmit(node, frame);
  pump(node);
}

/// When the last byte of a frame that leaves now is there.
Time SimulatedNetwork::arrival(Node& sender, Node& receiver, uint64_t bytes) {
  Time at = now_ + model_.delay;
  if (model_.jitter.count() > 0)
    at += Time(static_cast<int64_t>(chance() * static_cast<double>(model_.jitter.count())));
  if (model_.bytes_per_second <= 0) return at;
  const Time span(static_cast<int64_t>(static_cast<double>(bytes + kFrameOverhead) * 1e9 /
                                       model_.bytes_per_second));
  sender.egress_free = now_ + span;
  receiver.ingress_free = std::max(at + span, receiver.ingress_free + span);
  return receiver.ingress_free;
}

void SimulatedNetwork::transmit(int node, uint32_t index) {
  const Frame& frame = frames_in_pool_[index];
  Connection& connection = connections_[frame.link];
  if (connection.closed) return free_frame(index);
  const auto end = static_cast<size_t>(frame.to_end);
  Node& receiver = *nodes_[static_cast<size_t>(connection.node[end])];
  Time at = arrival(*nodes_[static_cast<size_t>(node)], receiver, frame.header.length);
  at = std::max(at, connection.last_arrival[end]);
  connection.last_arrival[end] = at;
  if (frame.header.kind >= FrameKind::kContribution) add_disturbances(frame, at);
  schedule({.at = at, .kind = Event::Kind::kDeliver, .node = connection.node[end], .index = index});
}

/// Frames that should not be there: one of an older view before `frame`, a repeated one after it.
void SimulatedNetwork::add_disturbances(Frame frame, Time at) {
  const int node = connections_[frame.link].node[static_cast<size_t>(frame.to_end)];
  if (model_.duplication > 0 && chance() < model_.duplication) {
    const double wait = chance() * 4 * static_cast<double>(model_.jitter.count());
    schedule({.at = at + model_.delay + Time(static_cast<int64_t>(wait)),
              .kind = Event::Kind::kDeliver,
              .node = node,
              .index = new_frame(frame)});
  }
  if (model_.outdated > 0 && chance() < model_.outdated) {
    --frame.header.view;
    frame.outdated = true;
    schedule({.at = at, .kind = Event::Kind::kDeliver, .node = node, .index = new_frame(frame)});
  }
}

void SimulatedNetwork::free_frame(uint32_t index) {
  frames_in_pool_[index].payload = {};
  free_frames_.push_back(index);
}

void SimulatedNetwork::deliver(uint32_t index) {
  const Frame frame = std::move(frames_in_pool_[index]);
  free_frame(index);
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
  // What was sent before is still delivered, what is urgent of that which waits too: the end comes
  // behind it.
  if (closer >= 0 && !tell_closer) send_urgent(closer, link);
  for (size_t end = 0; end < 2; ++end) {
    if (connection.node[end] < 0 || (end == 1 && !connection.open)) continue;
    if (connection.node[end] == closer && !tell_closer) {
      connection.shut[end] = true;
      continue;
    }
    schedule({.at = std::max(now_ + model_.delay, connection.last_arrival[end]),
              .kind = Event::Kind::kTellClosed,
              .node = connection.node[end],
              .index = link,
              .why = why});
  }
  if (!connection.open) connection.closed = true;
}

void SimulatedNetwork::send_urgent(int node, uint32_t link) {
  std::vector<Waiting>& waiting = nodes_[static_cast<size_t>(node)]->waiting;
  std::sort(waiting.begin(), waiting.end(),
            [](const Waiting& a, const Waiting& b) { return b < a; });
  for (const Waiting& each : waiting)
    if (frames_in_pool_[each.frame].link == link && each.priority == kUrgent)
      transmit(node, each.frame);
  std::erase_if(waiting, [&](const Waiting& each) {
    return each.priority == kUrgent && frames_in_pool_[each.frame].link == link;
  });
  std::make_heap(waiting.begin(), waiting.end());
}

void SimulatedNetwork::drop_bulk(int node, uint32_t link) {
  std::vector<Waiting>& waiting = nodes_[static_cast<size_t>(node)]->waiting;
  std::erase_if(waiting, [&](const Waiting& each) {
    const bool dropped = each.priority != kUrgent && frames_in_pool_[each.frame].link == link;
    if (dropped) free_frame(each.frame);
    return dropped;
  });
  std::make_heap(waiting.begin(), waiting.end());
}

void SimulatedNetwork::crash(int node) {
  Node& gone = *nodes_[static_cast<size_t>(node)];
  gone.crashed = true;
  for (const auto& [link, end] : gone.links) {
    if (link == UINT32_MAX || connections_[link].closed) continue;
    gone.waiting.clear();
    close(link, node, "connection reset by peer", false);
  }
}

void SimulatedNetwork::pause(int node) { nodes_[static_cast<size_t>(node)]->paused = true; }

void SimulatedNetwork::resume(int node) {
  Node& back = *nodes_[static_cast<size_t>(node)];
  back.paused = false;
  for (Event& event : back.held) {
    if (event.kind == Event::Kind::kWake) back.wake_due = now_;
    event.at = now_;
    schedule(std::move(event));
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
    if (queue_.front().at > until) return false;
    std::pop_heap(queue_.begin(), queue_.end(),
                  [](const Event& a, const Event& b) { return a.later_than(b); });
    const Event event = std::move(queue_.back());
    queue_.pop_back();
    now_ = std::max(now_, event.at);
    if (hook_) hook_(events_);
    ++events_;
    Node& node = *nodes_[static_cast<size_t>(event.node)];
    if (node.crashed) continue;
    if (node.paused)
      node.held.push_back(event);
    else
      dispatch(event);
  }
  return true;
}

void SimulatedNetwork::dispatch(const Event& event) {
  Node& node = *nodes_[static_cast<size_t>(event.node)];
  switch (event.kind) {
    case Event::Kind::kDeliver: return deliver(event.index);
    case Event::Kind::kOpen: return open(event.index);
    case Event::Kind::kWake:
      if (node.wake_due != event.at) return;  // an earlier request took its place
      node.wake_due.reset();
      return node.machine->wake();
    case Event::Kind::kPump: node.pumping = false; return pump(event.node);
    case Event::Kind::kAction: {
      const std::function<void()> action = std::move(actions_[event.index]);
      free_actions_.push_back(event.index);
      return action();
    }
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
