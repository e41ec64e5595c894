#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "comm/wire/outlet.h"

/// Measures the network between the workers before the plan is made. All workers measure at the
/// same time. Each sends to one worker and receives from one worker, so every node's link is loaded
/// in both directions.
namespace poseidon::comm {

/// Returns, by rank, the worker to which each worker sends. Each worker receives from exactly one
/// worker, on another host if possible. `hosts`: the host of each worker, by rank; at least two
/// workers.
std::vector<uint16_t> probe_ring(const std::vector<std::string>& hosts);

/// Rounds to two significant digits, because measurements vary from run to run and plans should
/// not.
double rounded_mbps(double mbps);

/// The measurement on one worker. As a sender, it keeps some frames in flight. As a receiver, it
/// replies to each frame until it has received enough. It uses no sockets. All calls are made in
/// the I/O thread.
class LinkProbe {
 public:
  struct Options {
    uint32_t view = 0;
    NodeId to, from;
    uint64_t warm_up_bytes = uint64_t{8} << 20;
    uint64_t bytes = uint64_t{32} << 20;        ///< received bytes to measure after the warm-up
    uint64_t window_bytes = uint64_t{4} << 20;  ///< the most bytes in flight
    Time most_warm_up = std::chrono::seconds(1), most = std::chrono::seconds(2);
  };
  /// Called once with the result.
  using Done = std::function<void(const LinkRate&)>;

  /// `outlet` must outlive this object.
  LinkProbe(const Options& options, Outlet& outlet, Done done);

  /// Starts to send. Both connections must be open.
  void begin();
  /// Returns the destination of a frame of kind kProbe.
  Destination destination(NodeId from, const FrameHeader& header);
  /// `processor_time` is the processor time that this node's I/O has used so far.
  void received(const FrameHeader& header, Time now, Time processor_time = Time{0});

  const Options& options() const { return options_; }

 private:
  void send_one();
  void echo();
  void count(uint64_t bytes, Time now, Time processor_time);

  const Options options_;
  Outlet& outlet_;
  const Done done_;
  uint64_t left_to_send_;
  std::vector<std::byte> incoming_;
  std::array<std::byte, 8> echo_{};
  uint64_t counted_ = 0;               ///< bytes received in the warm-up, or after it
  std::optional<Time> first_, since_;  ///< arrival of the first frame; end of the warm-up
  Time processor_time_{0};             ///< used until the end of the warm-up
  bool reported_ = false;
};

}  // namespace poseidon::comm
