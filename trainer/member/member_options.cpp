#include "trainer/member/member_options.h"

#include "comm/wire/address.h"
#include "core/error.h"
#include "core/failure.h"
#include "trainer/messages/facts.h"

namespace poseidon::trainer {

comm::Member::Options joining_options(const MemberOptions& options, comm::Role role,
                                      const comm::AsioTransport& transport) {
  return {.role = role,
          .wanted_rank = options.wanted_rank,
          .coordinator = options.coordinator,
          .address = transport.advertised(),
          .facts = {{"build", build_identity()}},
          .pause = options.pause,
          .join_timeout = options.join_timeout,
          .avoided = role == comm::Role::kWorker ? *options.avoided : comm::JobId{}};
}

namespace {

/// Stops the transport at every exit of join_and_run(). The objects of the worker or server are
/// destroyed next, and the transport must not access them then.
class Stopping {
 public:
  explicit Stopping(comm::AsioTransport& transport) : transport_(transport) {}
  ~Stopping() { transport_.stop(); }
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;

 private:
  comm::AsioTransport& transport_;
};

constexpr auto kLook = std::chrono::seconds(1);

/// Drops the in-memory checkpoint if it has expired.
void give_up_memory_checkpoint(const MemberOptions& options, Log& log) {
  if (options.checkpoint_store == nullptr) return;
  const std::string given_up =
      options.checkpoint_store->give_up(InMemoryCheckpointStore::Clock::now());
  if (!given_up.empty()) log.info(given_up);
}

/// Throws ConfigError if the node listens at all addresses but advertises none: it does not know
/// the address at which other nodes reach it.
void refuse_unnamed(const MemberOptions& options) {
  if (options.listen.empty() || !options.advertise.empty()) return;
  const std::string host = comm::parse_address(options.listen).host;
  if (host == "0.0.0.0" || host == "::")
    throw ConfigError(text("listening at ", options.listen,
                           " requires --advertise HOST:PORT, the address at which "
                           "other nodes reach this one (for a server in the worker's process: "
                           "--server-advertise)"));
}

}  // namespace

MemberEnd join_and_run(const MemberOptions& options, comm::AsioTransport& transport,
                       comm::Member& member, Inbox& inbox, const std::optional<MemberEnd>& end,
                       Log& log) {
  const Stopping stopping(transport);
  try {
    transport.start(member);
    Heartbeat& heartbeat = *options.heartbeat;
    const Heartbeat::PostScope reach(
        heartbeat, [&](std::function<void()> task) { transport.post(std::move(task)); });
    heartbeat.set_searching();
    transport.post([&member] { member.join(); });
    const std::stop_callback leaving(options.stop, [&] {
      transport.post([&member, why = options.why_stopped()] { member.leave(why); });
    });
    while (!end) {
      inbox.run_one(Inbox::Clock::now() + kLook);
      give_up_memory_checkpoint(options, log);
      transport.post([&heartbeat] { heartbeat.beat(); });  // both threads make progress
    }
    return *end;
  } catch (...) {
    const std::string why = message_of(std::current_exception());
    log.warning(why);
    transport.post([&member, why] { member.report_error(why); });
    return MemberEnd::kFailed;
  }
}

std::unique_ptr<comm::AsioTransport> make_transport(
    const MemberOptions& options, comm::Role role, Log& log,
    std::function<void(std::exception_ptr)> failed) {
  refuse_unnamed(options);
  comm::AsioOptions listening;
  listening.listen = options.listen;
  listening.advertise = options.advertise;
  listening.in_process_hub = options.in_process_hub;
  listening.self = {.role = role, .rank = -1, .view = 0, .address = ""};
  listening.secret = options.secret;
  listening.tls = options.tls;
  listening.insecure = options.insecure;
  // The transport must not destroy the log, which outlives it.
  listening.log = std::shared_ptr<Log>(&log, [](Log*) {});
  listening.on_failure = std::move(failed);
  return std::make_unique<comm::AsioTransport>(std::move(listening));
}

}  // namespace poseidon::trainer
