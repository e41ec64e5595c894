#pragma once

namespace poseidon::comm {

/// Sets the congestion control of a connection by its socket's descriptor.
/// - Within a host: Reno, which every kernel has.
/// - Between hosts: the system's choice, unless that is BBR. Then CUBIC if it is permitted, else
///   Reno.
/// BBR paces each connection by an estimated rate. Within a host, pacing needs a timer for each
/// segment, which costs a third of a transfer's processor time. If many hosts send to each other at
/// the same time, some BBR connections get far less than a fair rate. Then all nodes wait for these
/// connections.
void choose_congestion_control(int socket, bool leaves_host);

}  // namespace poseidon::comm
