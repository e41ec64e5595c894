#include "comm/membership/link_probe.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace poseidon::comm {

namespace {

/// Values of FrameHeader::chunk: a frame that loads the link, or its reply.
constexpr uint32_t kLoad = 0, kEcho = 1;

/// The body of all probe frames; its content has no meaning.
const std::shared_ptr<const std::vector<std::byte>>& load() {
  static const auto bytes = std::make_shared<const std::vector<std::byte>>(kSliceBytes);
  return bytes;
}

}  // namespace

double rounded_mbps(double mbps) {
  if (mbps <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(mbps)) - 1);
  return std::round(mbps / unit) * unit;
}

/// Sorts the workers by host. Each worker sends to the worker n positions later in this order,
/// where n is the number of workers on the fullest host. That worker is on another host, unless one
/// host has more than half of all workers.
std::vector<uint16_t> probe_ring(const std::vector<std::string>& hosts) {
  std::vector<uint16_t> order(hosts.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::stable_sort(order, {}, [&](uint16_t rank) { return hosts[rank]; });
  std::map<std::string, size_t> count;
  size_t most = 0;
  for (const std::string& host : hosts) most = std::max(most, ++count[host]);
  const size_t further = most == hosts.size() ? 1 : most;
  std::vector<uint16_t> to(hosts.size());
  for (size_t i = 0; i < order.size(); ++i) to[order[i]] = order[(i + further) % order.size()];
  return to;
}

LinkProbe::LinkProbe(const Options& options, Outlet& outlet, Done done)
    : options_(options),
      outlet_(outlet),
      done_(std::move(done)),
      left_to_send_(options.warm_up_bytes + options.bytes + options.window_bytes) {}

void LinkProbe::begin() {
  for (uint64_t sent = 0; sent < options_.window_bytes; sent += kSliceBytes) send_one();
}

void LinkProbe::send_one() {
  if (left_to_send_ < kSliceBytes) return;
  left_to_send_ -= kSliceBytes;
  outlet_.send(
      options_.to,
      {.kind = FrameKind::kProbe, .view = options_.view, .chunk = kLoad, .length = kSliceBytes},
      {*load(), load()}, bulk_priority(0));
}

/// Sends the echo before queued bulk data. Otherwise the echo would wait for a full window of data,
/// and the window would limit the measured rate.
void LinkProbe::echo() {
  outlet_.send(
      options_.from,
      {.kind = FrameKind::kProbe, .view = options_.view, .chunk = kEcho, .length = echo_.size()},
      {std::span(*load()).first(echo_.size()), load()}, kUrgent);
}

Destination LinkProbe::destination(NodeId from, const FrameHeader& header) {
  if (header.view != options_.view) return Destination::dropped();
  if (header.chunk == kEcho && from == options_.to && header.length == echo_.size())
    return Destination::into(echo_);
  if (header.chunk != kLoad || from != options_.from || header.length != kSliceBytes)
    return Destination::refused("sent a probe that was not requested");
  if (reported_) return Destination::dropped();
  incoming_.resize(kSliceBytes);
  return Destination::into(incoming_);
}

void LinkProbe::received(const FrameHeader& header, Time now, Time processor_time) {
  if (header.chunk == kEcho) return send_one();
  if (reported_) return;
  count(header.length, now, processor_time);
  if (!reported_) echo();
}

void LinkProbe::count(uint64_t bytes, Time now, Time processor_time) {
  if (!first_) first_ = now;
  counted_ += bytes;
  if (!since_) {
    if (counted_ < options_.warm_up_bytes && now - *first_ < options_.most_warm_up) return;
    since_ = now;
    processor_time_ = processor_time;
    counted_ = 0;
    return;
  }
  const Time passed = now - *since_;
  if (passed.count() <= 0 || (counted_ < options_.bytes && passed < options_.most)) return;
  reported_ = true;
  const auto bytes_in = static_cast<double>(counted_);
  // This worker sends as many bytes as it receives.
  const auto used = static_cast<double>((processor_time - processor_time_).count());
  done_({.mbps = bytes_in * 8e-6 / std::chrono::duration<double>(passed).count(),
         .processor_ns_per_byte = used / (2 * bytes_in)});
}

}  // namespace poseidon::comm
