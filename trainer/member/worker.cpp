#include "core/inbox.h"
#include "trainer/member/member_options.h"
#include "trainer/member/worker_session.h"
#include "trainer/member/worker_task.h"

namespace poseidon::trainer {

namespace {

/// A worker in one job. It has an I/O thread for the protocol. The main thread computes. The
/// threads communicate through the inbox and WorkerSession::post().
struct Worker {
  Worker(const MemberOptions& options, Log& log)
      : session(options, inbox, task, log), task(options, session, log) {}

  Inbox inbox;
  WorkerSession session;
  WorkerTask task;
};

}  // namespace

MemberEnd run_worker(const MemberOptions& options, Log& log) {
  Worker worker(options, log);
  return join_and_run(options, worker.session.transport(), worker.session.member(), worker.inbox,
                      worker.task.end(), log);
}

}  // namespace poseidon::trainer
