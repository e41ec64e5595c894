#pragma once

#include <array>
#include <string_view>

/// The states of the protocol's machines: the event that ends each state, its deadline, and the
/// deadline's effect. The tables also appear in docs/cluster.md. A test stalls the job in each
/// state.
namespace poseidon::comm {

struct StateRow {
  std::string_view state;
  std::string_view ends_with;
  std::string_view deadline;  ///< the time after which the state ends without that event
  std::string_view then;  ///< the effect of the deadline, and the node that then counts as failed
};

inline constexpr std::array<StateRow, 11> kCoordinatorStates{{
    {"gathering",
     "the last member has joined; after `gather_s`, if set, `min_workers` workers and a server "
     "suffice",
     "3 x `timeout_s`, at least 15 s; none with `--external`",
     "the first missing member has failed"},
    {"preparing", "all members have opened job and data", "`stall_timeout_s` without progress",
     "the slowest member has failed"},
    {"fetching", "the worker with a later in-memory checkpoint has sent it",
     "60 s without a tensor, or 3 x `timeout_s` if longer; at most `stall_timeout_s`",
     "the job continues without this checkpoint, with a warning, and asks the next best worker"},
    {"measuring", "all workers have reported their link speed", "`timeout_s` + 60 s",
     "a worker without a report has failed"},
    {"connecting", "all members have built their nets and connected to their peers",
     "`stall_timeout_s` without progress; for joiners, 60 s (or 3 x `timeout_s` if longer) plus "
     "four times the transfer time of their values",
     "the slowest member has failed; all joiners that are not ready have failed"},
    {"running", "all workers have completed all steps",
     "`stall_timeout_s` without progress of the slowest worker", "that worker has failed"},
    {"concluding", "all servers have reported their traffic", "`timeout_s`",
     "the job ends without the missing reports; a warning names the servers"},
    {"suspecting", "a peer reports what it awaited from the failed node",
     "`timeout_s` / 10 after a broken connection; 2 `timeout_s` / 5 after missing heartbeats or a "
     "member's report about another one",
     "the failed node is named without that report; if the coordinator has detected no failure, "
     "the smallest set that explains the reports has failed"},
    {"reconfiguring",
     "all members have stopped computing, and the checkpoint to return to, if any, is read",
     "for the members: the limit of failing",
     "members that still compute have failed too; the others continue"},
    {"failing", "all survivors have stopped computing",
     "`timeout_s`, at most 5 s; or the time of four steps if longer",
     "the coordinator stops waiting for survivors that still compute; a warning names them"},
    {"saving", "the chosen survivor has sent its checkpoint",
     "the limit of failing, without a tensor",
     "the coordinator stops waiting for it, with a warning, and asks the next best survivor"},
}};

inline constexpr std::array<StateRow, 10> kMemberStates{{
    {"seeking", "the coordinator answers", "`--join-timeout`; none without it",
     "the process reports why it cannot reach the coordinator, and ends"},
    {"joining", "the coordinator admits or refuses the node", "`--join-timeout`, at least 10 s",
     "the node searches for the coordinator again"},
    {"preparing", "the plan arrives", "`timeout_s` without a heartbeat of the coordinator",
     "the coordinator has failed"},
    {"reconfiguring", "the next view's plan arrives",
     "`timeout_s` without a heartbeat of the coordinator", "the coordinator has failed"},
    {"connecting", "the node has its first values and a large message from each peer",
     "`timeout_s` for each peer",
     "the node reports the unreachable peer and the reason to the coordinator"},
    {"ready", "the coordinator starts the steps", "`timeout_s` without a heartbeat of a node",
     "that node has failed"},
    {"running", "all steps are complete", "`timeout_s` without a heartbeat of a node",
     "that node has failed"},
    {"finished", "the coordinator dismisses the node",
     "`timeout_s` without a heartbeat of the coordinator", "the coordinator has failed"},
    {"suspecting", "the coordinator decides which node has failed", "`timeout_s`",
     "the suspected node has failed"},
    {"failing", "the coordinator dismisses the node",
     "`timeout_s` without a heartbeat of the coordinator", "the node ends"},
}};

}  // namespace poseidon::comm
