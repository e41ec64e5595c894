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
#include "trainer/member/life_signs.h"
#include "trainer/messages/member_end.h"
#include "trainer/state/kept_step.h"

namespace poseidon::trainer {

/// How a process takes part in jobs: what poseidon-worker and poseidon-server are told.
struct MemberOptions {
  std::string coordinator;  ///< "host:port"
  std::string listen = "127.0.0.1:0";
  std::string advertise = {};  ///< as comm::AsioOptions::advertise
  /// Other members in this process, which are reached without a socket.
  std::shared_ptr<comm::Neighbours> neighbours = nullptr;
  comm::Secret secret = {};
  comm::TlsFiles tls = {};
  bool insecure = false;
  int64_t wanted_rank = -1;
  std::chrono::seconds join_timeout{0};  ///< 0: tries for ever
  std::chrono::seconds pause{0};         ///< listens for so long before it looks for a coordinator
  std::stop_token stop = {};             ///< asks it to leave: the job ends, in good order
  /// What the others are told when it leaves. Called in the thread that asks it to.
  std::function<std::string()> why_stopped = [] { return "it was asked to end by a signal"; };
  /// Ends the process, from any thread: its part in a job is over, but the thread that computes
  /// hangs. Null: that thread is waited for.
  std::function<void(const std::string& why)> abandon = nullptr;
  /// Takes this part's signs of life. Never null.
  std::shared_ptr<LifeSigns> life = std::make_shared<LifeSigns>();
  // Of a worker.
  /// The job that it has drifted in, and does not join again; zeros: none. Never null.
  std::shared_ptr<comm::JobId> avoided = std::make_shared<comm::JobId>();
  int64_t threads = 0;
  std::optional<DeviceList> devices = std::nullopt;  ///< instead of the job's
  DataRoot data_root = {};
  /// Where it leaves the last complete step of a run that ended before its time; null: nowhere.
  std::shared_ptr<StepKeeper> keeper = nullptr;
  /// Of the run whose coordinator has started this process: where it writes a checkpoint when the
  /// coordinator is gone. "": nowhere.
  std::filesystem::path run_directory = {};
};

/// Takes part in one job as a worker: blocks until it is over. Tells `log` what happens.
MemberEnd run_worker(const MemberOptions& options, Log& log);
/// The same as a server.
MemberEnd run_server(const MemberOptions& options, Log& log);

/// The transport of a member, listening. Throws ConfigError, RunError.
std::unique_ptr<comm::AsioTransport> make_transport(const MemberOptions& options, comm::Role role,
                                                    Log& log,
                                                    std::function<void(std::exception_ptr)> failed);

/// As whom and where it asks to take part.
comm::Member::Options joining_options(const MemberOptions& options, comm::Role role,
                                      const comm::AsioTransport& transport);

/// Joins, and does what the inbox says until `end` has a value. What is thrown there is told to
/// `log` and to the coordinator, and ends this part in the job, not the process.
MemberEnd take_part(const MemberOptions& options, comm::AsioTransport& transport,
                    comm::Member& member, Inbox& inbox, const std::optional<MemberEnd>& end,
                    Log& log);

}  // namespace poseidon::trainer
