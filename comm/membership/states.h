#pragma once

#include <array>
#include <string_view>

/// The states of the protocol's machines: the event that ends each state, its deadline, and the
/// deadline's effect. The tables also appear in docs/cluster.md. A test stalls each state one after
/// another.
namespace poseidon::comm {

struct StateRow {
  std::string_view state;
  std::string_view ends_with;
  std::string_view deadline;  ///< the time after which it ends without that event
  std::string_view then;      ///< the effect of the deadline, and the node that is named
};

inline constexpr std::array<StateRow, 11> kCoordinatorStates{{
    {"gathering",
     "the last member joins; behind `gather_s`, if it is set, `min_workers` and a server are there",
     "3 x `timeout_s`, 15 s at least; with `--external` none",
     "the first who has not joined is lost"},
    {"preparing", "all have opened job and data", "`stall_timeout_s` without a sign of progress",
     "the quietest is lost"},
    {"fetching", "the worker that keeps a later step has sent it",
     "60 s without a tensor of it, 3 x `timeout_s` if that is more; at most `stall_timeout_s`",
     "its step is given up, with a warning; the next best worker is asked"},
    {"measuring", "all have told what the link takes", "`timeout_s` + 60 s",
     "the first who has not told is lost"},
    {"connecting", "all have their net and their peers",
     "`stall_timeout_s` without a sign of progress; with joiners, 60 s (3 x `timeout_s` if that is "
     "more) and four times what their values take",
     "the quietest is lost; joiners that are not ready are lost together"},
    {"running", "all workers have done all steps",
     "`stall_timeout_s` without a sign of progress of the slowest worker", "that worker is lost"},
    {"concluding", "all servers have told their traffic", "`timeout_s`",
     "the job is finished without them, with a warning that names them"},
    {"suspecting", "a peer says what it awaited from the lost node",
     "`timeout_s` / 10 behind a broken connection, 2 `timeout_s` / 5 behind a silence or a report "
     "of one member about another",
     "the lost node is named without it; without a lost node, the fewest that explain the reports"},
    {"regrouping",
     "all members have ceased to compute, and the checkpoint that they go back to, if any, is read",
     "as of failing, for the members", "who has not is lost too, and the others go on"},
    {"failing", "all survivors have ceased to compute",
     "`timeout_s`, 5 s at most; four times a step where that is more",
     "who has not is given up, with a warning that names it"},
    {"saving", "the survivor that was asked has sent its checkpoint",
     "the same, without a tensor of it", "it is given up, with a warning; the next best is asked"},
}};

inline constexpr std::array<StateRow, 10> kMemberStates{{
    {"seeking", "the coordinator answers", "`--join-timeout`; without it none",
     "the process says why it cannot be reached, and ends"},
    {"joining", "the coordinator lets it in, or refuses it", "`--join-timeout`, 10 s at least",
     "the coordinator is looked for again"},
    {"preparing", "the plan comes", "`timeout_s` of the coordinator's silence",
     "the coordinator is lost"},
    {"regrouping", "the next view's plan comes", "`timeout_s` of the coordinator's silence",
     "the coordinator is lost"},
    {"connecting", "it has its first values, and large messages of all its peers",
     "`timeout_s` for each peer", "the coordinator hears which peer is not reached, and why"},
    {"ready", "the coordinator begins", "`timeout_s` of a node's silence", "that node is lost"},
    {"running", "all steps are done", "`timeout_s` of a node's silence", "that node is lost"},
    {"finished", "the coordinator dismisses it", "`timeout_s` of the coordinator's silence",
     "the coordinator is lost"},
    {"suspecting", "the coordinator decides who is lost", "`timeout_s`",
     "the node that it suspects is lost"},
    {"failing", "the coordinator dismisses it", "`timeout_s` of the coordinator's silence",
     "it ends"},
}};

}  // namespace poseidon::comm
