#pragma once

namespace poseidon::comm {

/// Chooses the congestion control of a connection, by its socket's descriptor. BBR, where that is
/// the system's, paces by a rate that it estimates for each connection. Within a host that sets a
/// timer for each segment, a third of the processor time of a transfer; between many hosts that all
/// send to all at once, some connections get far less than their share, and everybody waits for
/// those. So a connection within a host goes by Reno, which is in every kernel, and one between
/// hosts by what the system chooses, unless that is BBR: then by CUBIC where that is allowed, else
/// by Reno.
void choose_congestion_control(int socket, bool leaves_host);

}  // namespace poseidon::comm
