#include "comm/asio/driver.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <asio.hpp>
#include <ctime>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "comm/asio/congestion.h"
#include "comm/asio/connection.h"
#include "comm/asio/egress_port.h"
#include "comm/asio/in_process_hub.h"
#include "comm/asio/listener.h"
#include "comm/asio/refusal_log.h"
#include "comm/asio/tls_stream.h"
#include "comm/wire/address.h"
#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// Returns `advertise`, but with the port of `listening` if the port in `advertise` is 0.
std::string with_port_of(const std::string& listening, const std::string& advertise) {
  HostPort out = parse_address(advertise);
  if (out.port == 0) out.port = parse_address(listening).port;
  return to_string(out);
}

/// Selects the batch scheduling policy. If all cores compute, a normal I/O thread would preempt a
/// compute thread at once, for every slice. A batch thread waits for the scheduler's next tick, a
/// few ms at most, and then processes more frames per wake-up. If a core is idle, a batch thread
/// starts as soon as any other thread.
void do_not_preempt() {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;  // another policy was set on purpose
  const sched_param none{};
  ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);  // if refused: only slower
}

std::unique_ptr<Stream> make_stream(std::optional<TlsContext>& tls, tcp::socket socket) {
  return tls ? tls->make_stream(std::move(socket)) : make_plain_stream(std::move(socket));
}

}  // namespace

/// The I/O thread, and all objects that it uses.
class AsioTransport::Driver final : public ChannelOwner {
 public:
  explicit Driver(AsioOptions options) : options_(std::move(options)) {
    egress_.limit_rate(options_.bandwidth_limit_mbps);
    control_congestion(options_.congestion_control);
    if (options_.tls.given()) tls_.emplace(options_.tls);
    if (options_.listen.empty()) return;
    listener_.emplace(*io_, options_);
    address_ = listener_->address();
    advertised_ = options_.advertise.empty() ? listener_->reached_at()
                                             : with_port_of(address_, options_.advertise);
    if (options_.in_process_hub)
      entry_ = std::make_unique<InProcessHub::Entry>(
          options_.in_process_hub, advertised_, io_,
          [this](const InProcessHub::Call& call) { answer(call); });
  }

  const std::string& address() const { return address_; }
  const std::string& advertised() const { return advertised_; }

  void start(Machine& machine) {
    check(machine_ == nullptr, "a transport is started once");
    machine_ = &machine;
    if (listener_) listener_->start([this](tcp::socket socket) { accept(std::move(socket)); });
    thread_ = std::thread([this] {
      do_not_preempt();
      run();
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    check(thread_.get_id() != std::this_thread::get_id(), "the I/O thread cannot wait for itself");
    post([this] { end(); });
    thread_.join();
  }

  void post(std::function<void()> function) { asio::post(*io_, std::move(function)); }

  void present_as(const PeerIdentity& self) { options_.self = self; }
  const AsioOptions& options() const override { return options_; }
  void limit_bandwidth(double mbps) { egress_.limit_rate(mbps); }
  void control_congestion(CongestionControl setting) {
    options_.congestion_control = permitted(setting, *options_.log);
  }

  ConnectionId connect(const std::string& address, const PeerIdentity& self, NodeId called) {
    const ConnectionId id = next_id_++;
    if (ending_ || call_in_process(id, address, self, called)) return id;
    const auto connection =
        std::make_shared<Connection>(*this, id, make_stream(tls_, tcp::socket(*io_)),
                                     Initiator(options_.secret, self, called, make_nonce()));
    channels_.emplace(id, connection);
    connection->dial(address);
    return id;
  }

  void send(ConnectionId to, const FrameHeader& header, Payload payload, Priority priority) {
    const auto found = channels_.find(to);
    if (found != channels_.end()) found->second->send(header, std::move(payload), priority);
  }

  void drop_bulk(ConnectionId id) {
    const auto found = channels_.find(id);
    if (found != channels_.end()) found->second->drop_bulk();
  }

  void close(ConnectionId id) {
    const auto found = channels_.find(id);
    if (found == channels_.end()) return;
    const std::shared_ptr<Channel> channel = found->second;
    channel->close();
  }

  void wake_at(Time when) {
    if (ending_ || (wake_at_ && *wake_at_ <= when)) return;
    wake_at_ = when;
    timer_.expires_at(Clock::time_point(std::chrono::duration_cast<Clock::duration>(when)));
    timer_.async_wait([this](const std::error_code& error) {
      // The timer may have been set again after it expired.
      if (error || !wake_at_ || *wake_at_ > Clock::now().time_since_epoch()) return;
      wake_at_.reset();
      machine_->wake();
    });
  }

 private:
  Machine& machine() override { return *machine_; }
  EgressPort& egress() override { return egress_; }

  void connection_failed(Channel& channel, const std::string& why) override {
    if (ending_) return;
    if (channel.known())
      machine_->closed(channel.id(), why);
    else
      refusals_.report(channel.peer_address(), why);
  }
  void ended(Channel& channel) override { channels_.erase(channel.id()); }

  /// Connects to the transport of this process that has this `address`. Returns false if there is
  /// none.
  bool call_in_process(ConnectionId id, const std::string& address, const PeerIdentity& self,
                       NodeId called) {
    if (!options_.in_process_hub) return false;
    const auto channel = std::make_shared<LocalChannel>(*this, id, io_, address);
    if (!options_.in_process_hub->call(
            address, {.caller = channel->end_handle(), .identity = self, .called = called}))
      return false;
    channels_.emplace(id, channel);
    return true;
  }

  void answer(const InProcessHub::Call& call) {
    if (ending_) return LocalChannel::refuse(call.caller, "connection refused");
    std::string why = mismatch(call.identity, call.called, options_.self);
    if (why.empty()) why = machine_->refusal(call.identity);
    if (!why.empty()) {
      refusals_.report(call.identity.address, why);
      return LocalChannel::refuse(call.caller, kRefusedByPeer + why);
    }
    const ConnectionId id = next_id_++;
    const auto channel = std::make_shared<LocalChannel>(*this, id, io_, call.identity.address);
    channels_.emplace(id, channel);
    channel->answer(call.caller, call.identity, options_.self);
  }

  void accept(tcp::socket socket) {
    make_place();
    const ConnectionId id = next_id_++;
    const auto connection =
        std::make_shared<Connection>(*this, id, make_stream(tls_, std::move(socket)),
                                     Acceptor(options_.secret, options_.self, make_nonce()));
    channels_.emplace(id, connection);
    connection->accept();
  }

  /// If the limit on unauthenticated connections is reached, closes the oldest one of the host that
  /// has the most of them. So a host that floods this node loses its own connections. A member on
  /// that host can still connect: it has as much time to authenticate as the flood needs to reach
  /// the limit.
  void make_place() {
    std::map<std::string, std::vector<ConnectionId>> unauthenticated;
    size_t count = 0;
    for (const auto& [id, channel] : channels_)
      if (!channel->known()) {
        unauthenticated[host_of(channel->peer_address())].push_back(id);
        ++count;
      }
    if (count < options_.limits.unauthenticated) return;
    const auto most =
        std::max_element(unauthenticated.begin(), unauthenticated.end(),
                         [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
    refusals_.report(most->first, text(count, " connections are not authenticated"));
    close(*std::min_element(most->second.begin(), most->second.end()));
  }

  void end() {
    ending_ = true;
    entry_.reset();
    if (listener_) listener_->stop();
    egress_.stop();
    timer_.cancel();
    const auto channels = channels_;  // close() erases from the map
    for (const auto& [id, channel] : channels) channel->close();
    work_.reset();
  }

  void run() {
    try {
      machine_->begin();
      io_->run();
    } catch (...) {
      if (!options_.on_failure) throw;
      const std::exception_ptr thrown = std::current_exception();
      // Closes all channels first. Otherwise another transport of this process may read the payload
      // of a queued frame while the failed member frees that memory.
      end();
      options_.on_failure(thrown);
    }
  }

  AsioOptions options_;
  std::string address_, advertised_;
  /// Shared: another transport may still post to it after this object is gone.
  std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(*io_);
  asio::steady_timer timer_{*io_};
  std::optional<Time> wake_at_;
  EgressPort egress_{io_, options_.in_process_hub ? options_.in_process_hub->link()
                                                  : std::make_shared<EgressLink>()};
  std::optional<TlsContext> tls_;
  std::optional<Listener> listener_;
  std::unique_ptr<InProcessHub::Entry> entry_;
  std::unordered_map<ConnectionId, std::shared_ptr<Channel>> channels_;
  ConnectionId next_id_ = 1;
  Machine* machine_ = nullptr;
  bool ending_ = false;
  RefusalLog refusals_{*options_.log};
  std::thread thread_;
};

AsioTransport::AsioTransport(AsioOptions options)
    : driver_(std::make_unique<Driver>(std::move(options))) {}
AsioTransport::~AsioTransport() { stop(); }

const std::string& AsioTransport::address() const { return driver_->address(); }
const std::string& AsioTransport::advertised() const { return driver_->advertised(); }
void AsioTransport::start(Machine& machine) { driver_->start(machine); }
void AsioTransport::stop() { driver_->stop(); }
void AsioTransport::post(std::function<void()> function) { driver_->post(std::move(function)); }
bool AsioTransport::has_in_process_hub() const {
  return driver_->options().in_process_hub != nullptr;
}
void AsioTransport::limit_bandwidth(double mbps) { driver_->limit_bandwidth(mbps); }
void AsioTransport::control_congestion(CongestionControl setting) {
  driver_->control_congestion(setting);
}
void AsioTransport::present_as(const PeerIdentity& self) { driver_->present_as(self); }

/// Returns the processor time of the calling thread, which is the I/O thread.
Time AsioTransport::processor_time() const {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}
Time AsioTransport::now() const { return Clock::now().time_since_epoch(); }
ConnectionId AsioTransport::connect(const std::string& address, const PeerIdentity& self,
                                    NodeId called) {
  return driver_->connect(address, self, called);
}
void AsioTransport::send(ConnectionId to, const FrameHeader& header, Payload payload,
                         Priority priority) {
  driver_->send(to, header, std::move(payload), priority);
}
void AsioTransport::drop_bulk(ConnectionId connection) { driver_->drop_bulk(connection); }
void AsioTransport::close(ConnectionId connection) { driver_->close(connection); }
void AsioTransport::wake_at(Time when) { driver_->wake_at(when); }

}  // namespace poseidon::comm
