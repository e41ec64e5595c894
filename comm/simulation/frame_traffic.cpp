#include "comm/simulation/frame_traffic.h"

#include <algorithm>

#include "comm/simulation/mixed.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
/// The largest frame that passes a path which drops large packets, bytes.
constexpr uint64_t kSmallMtuBytes = 1500;
}  // namespace

double FrameTraffic::chance() {
  return static_cast<double>(mixed(random_ += kMixStep) >> 11) * 0x1p-53;
}

void FrameTraffic::send(int node, ConnectionId id, const FrameHeader& header, Payload payload,
                        Priority priority) {
  const auto [link, end] = state_.node(node).links[id];
  if (state_.connections[link].closed || !state_.connections[link].open) return;
  if (state_.connections[link].shut[static_cast<size_t>(end)]) return;
  const uint32_t index = under_way_.put(
      {.connection = link, .to_end = 1 - end, .header = header, .payload = std::move(payload)});
  Frame& frame = under_way_[index];
  if (!frame.payload.bytes.empty()) frame.header.length = frame.payload.bytes.size();
  if (!state_.connections[link].senders || priority == kUrgent) return transmit(index);
  const uint32_t host = state_.node(node).host;
  state_.links[host].push((*state_.connections[link].senders)[static_cast<size_t>(end)], index,
                          priority, frame.bytes());
  serve(host);
}

/// Starts to send the next bulk frame of a host, if its link is free and a frame may leave.
void FrameTraffic::serve(uint32_t host) {
  const std::optional<uint32_t> frame = state_.links[host].next(state_.queue.now());
  if (!frame) return;
  transmit(*frame);
  state_.queue.schedule({.at = state_.links[host].egress_free(),
                         .kind = Event::Kind::kSent,
                         .node = static_cast<int>(host)});
}

/// Reserves the links for a frame that leaves now. Returns when its last byte arrives.
Time FrameTraffic::arrival(const Frame& frame) {
  SimulatedConnection& connection = connection_of(frame);
  const auto end = static_cast<size_t>(frame.to_end);
  Time at = state_.queue.now() + state_.model.delay;
  if (state_.model.jitter.count() > 0)
    at += Time(static_cast<int64_t>(chance() * static_cast<double>(state_.model.jitter.count())));
  if (connection.senders) {
    const auto host = [&](size_t of) { return state_.node(connection.node[of]).host; };
    at += state_.links[host(1 - end)].leaves_at(frame.bytes(), state_.queue.now()) -
          state_.queue.now();
    at = state_.links[host(end)].arrives_at(frame.bytes(), at);
  }
  return connection.last_arrival[end] = std::max(at, connection.last_arrival[end]);
}

void FrameTraffic::transmit(uint32_t index) {
  const Frame& frame = under_way_[index];
  const SimulatedConnection& connection = connection_of(frame);
  if (connection.closed) return static_cast<void>(under_way_.take(index));
  const Time at = arrival(frame);
  const int to = connection.node[static_cast<size_t>(frame.to_end)];
  if (frame.header.kind >= FrameKind::kContribution) add_disturbances(frame, at);
  state_.queue.schedule({.at = at, .kind = Event::Kind::kDeliver, .node = to, .index = index});
}

/// Adds faulty frames with the chances of NetworkModel: one of an older view before `frame`, and a
/// repeated one after it.
void FrameTraffic::add_disturbances(Frame frame, Time at) {
  const int node = connection_of(frame).node[static_cast<size_t>(frame.to_end)];
  if (state_.model.duplication > 0 && chance() < state_.model.duplication) {
    const double wait = chance() * 4 * static_cast<double>(state_.model.jitter.count());
    state_.queue.schedule({.at = at + state_.model.delay + Time(static_cast<int64_t>(wait)),
                           .kind = Event::Kind::kDeliver,
                           .node = node,
                           .index = under_way_.put(frame)});
  }
  if (state_.model.outdated > 0 && chance() < state_.model.outdated) {
    --frame.header.view;
    frame.outdated = true;
    state_.queue.schedule(
        {.at = at, .kind = Event::Kind::kDeliver, .node = node, .index = under_way_.put(frame)});
  }
}

std::string FrameTraffic::description(uint32_t index) {
  const Frame& frame = under_way_[index];
  const SimulatedConnection& connection = connection_of(frame);
  const std::string& sender =
      state_.node(connection.node[1 - static_cast<size_t>(frame.to_end)]).address;
  const FrameHeader& header = frame.header;
  if (is_bulk(header.kind))
    return text(name_of(header.kind), " of layer ", header.key, ", chunk ", header.chunk, ", step ",
                header.step, ", ", header.length, " bytes, from ", sender);
  const auto& body = frame.payload.bytes;
  const std::string content(reinterpret_cast<const char*>(body.data()), body.size());
  return text(name_of(header.kind), content.empty() ? "" : " " + content, " from ", sender);
}

void FrameTraffic::deliver(uint32_t index) {
  const Frame frame = under_way_.take(index);
  const SimulatedConnection& connection = connection_of(frame);
  const auto end = static_cast<size_t>(frame.to_end);
  if (connection.closed || connection.shut[end] || !state_.hears(connection, end)) return;
  if (is_stalled(frame)) return;
  ++delivered_;
  Machine& machine = *state_.node(connection.node[end]).machine;
  const ConnectionId id = connection.id[end];
  if (frame.header.kind < FrameKind::kContribution)
    return machine.received(id, frame.header, frame.payload.bytes);
  const std::span<std::byte> destination = machine.destination(id, frame.header);
  if (destination.empty()) return;
  // Bytes are read as late as possible, so a test detects memory that is reused too early.
  if (frame.outdated)
    std::fill(destination.begin(), destination.end(), std::byte{0x3E});
  else if (!frame.payload.bytes.empty())
    std::copy(frame.payload.bytes.begin(), frame.payload.bytes.end(), destination.begin());
  machine.received(id, frame.header, destination);
}

/// Whether a frame never arrives, because a packet of it or of an earlier frame was lost.
bool FrameTraffic::is_stalled(const Frame& frame) {
  SimulatedConnection& connection = connection_of(frame);
  const auto [least, most] = std::minmax(connection.node[0], connection.node[1]);
  if (!state_.small_mtu.contains({least, most})) return false;
  const auto end = static_cast<size_t>(frame.to_end);
  connection.stalled[end] |= frame.bytes() > kSmallMtuBytes;
  return connection.stalled[end];
}

void FrameTraffic::has_left(uint32_t host) {
  state_.links[host].has_left(state_.queue.now());
  serve(host);
}

void FrameTraffic::pause(int node, bool paused) {
  for (const auto& [connection, end] : state_.node(node).links)
    for_sender(node, connection,
               [paused](HostLink& host, HostLink::Sender sender) { host.pause(sender, paused); });
  serve(state_.node(node).host);
}

void FrameTraffic::drop_bulk(int node, uint32_t connection) {
  for_sender(node, connection, [this](HostLink& host, HostLink::Sender sender) {
    for (const uint32_t frame : host.drop(sender)) under_way_.take(frame);
  });
}

template <class Action>
void FrameTraffic::for_sender(int node, uint32_t connection, Action action) {
  if (connection == UINT32_MAX || !state_.connections[connection].senders) return;
  const size_t end = state_.connections[connection].node[0] == node ? 0 : 1;
  action(state_.links[state_.node(node).host], (*state_.connections[connection].senders)[end]);
}

}  // namespace poseidon::comm
