#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "comm/asio/driver.h"
#include "comm/membership/member.h"
#include "comm/wire/messages.h"
#include "core/inbox.h"
#include "core/log.h"
#include "trainer/job/data_root.h"
#include "trainer/job/device_list.h"
#include "trainer/member/heartbeat.h"
#include "trainer/messages/member_end.h"
#include "trainer/state/in_memory_checkpoint.h"

namespace poseidon::trainer {

/// Options of a process that takes part in jobs, from the command line of poseidon-worker and
/// poseidon-server.
struct MemberOptions {
  std::string coordinator;  ///< "host:port"
  std::string listen = "127.0.0.1:0";
  std::string advertise = {};  ///< see comm::AsioOptions::advertise
  /// Connects the members in this process without sockets; null: no other member.
  std::shared_ptr<comm::InProcessHub> in_process_hub = nullptr;
  comm::Secret secret = {};
  comm::TlsFiles tls = {};
  bool insecure = false;
  int64_t wanted_rank = -1;
  std::chrono::seconds join_timeout{0};  ///< 0: no limit
  std::chrono::seconds pause{0};  ///< time before the first attempt to connect to the coordinator
  std::stop_token stop = {};  ///< request to leave; the job continues without this node, or fails
  /// Returns the reason for leaving, for the coordinator. Called in the thread that requests the
  /// stop.
  std::function<std::string()> why_stopped = [] { return "it received a stop signal"; };
  /// Ends the process if a job is over but the compute thread hangs. Called by any thread. Null:
  /// the process waits for the compute thread.
  std::function<void(const std::string& why)> abandon = nullptr;
  /// Receives the heartbeats of this worker or server. Never null.
  std::shared_ptr<Heartbeat> heartbeat = std::make_shared<Heartbeat>();
  // For a worker.
  /// The job that this worker does not join again, because its replica has diverged; zeros: none.
  /// Never null.
  std::shared_ptr<comm::JobId> avoided = std::make_shared<comm::JobId>();
  int64_t threads = 0;
  /// The devices of this worker; nullopt: those that the job names.
  std::optional<DeviceList> devices = std::nullopt;
  DataRoot data_root = {};
  /// Stores the last complete step of a run that ended early; null: no step is stored.
  std::shared_ptr<InMemoryCheckpointStore> checkpoint_store = nullptr;
  /// Run directory of the coordinator that started this process. The worker writes a checkpoint
  /// there if the coordinator has failed. "": the worker writes no checkpoint.
  std::filesystem::path run_directory = {};
};

/// Takes part in one job as a worker. Blocks until the job is over. Logs events to `log`.
MemberEnd run_worker(const MemberOptions& options, Log& log);
/// Takes part in one job as a server, like run_worker().
MemberEnd run_server(const MemberOptions& options, Log& log);

/// Creates the transport of a member, and begins to listen. The I/O thread calls `failed` with an
/// exception that ends this thread. Throws ConfigError, RunError.
std::unique_ptr<comm::AsioTransport> make_transport(const MemberOptions& options, comm::Role role,
                                                    Log& log,
                                                    std::function<void(std::exception_ptr)> failed);

/// Options with which the member joins: role, rank, coordinator and address.
comm::Member::Options joining_options(const MemberOptions& options, comm::Role role,
                                      const comm::AsioTransport& transport);

/// Joins a job, runs tasks from the inbox until `end` has a value, and returns this value. If a
/// task throws, logs the exception, reports it to the coordinator, and returns kFailed. So the
/// member leaves the job, but the process continues.
MemberEnd join_and_run(const MemberOptions& options, comm::AsioTransport& transport,
                       comm::Member& member, Inbox& inbox, const std::optional<MemberEnd>& end,
                       Log& log);

}  // namespace poseidon::trainer
