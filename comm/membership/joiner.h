#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A joiner: a node that is admitted to a running job, but is not a member yet. It opens job and
/// data while the members continue.
struct Joiner {
  NodeId node;  ///< `rank` is the id from its Welcome, unique within the role
  std::string address;
  bool prepared = false;
  bool sent_proof = false;       ///< its MtuCheck proof, a large message, has arrived
  std::vector<Fact> facts = {};  ///< set once it is prepared
  std::vector<Note> notes = {};  ///< notes of the trainer
  Time progress_at{0};           ///< when it last reported progress
};

using JoinerTable = std::map<ConnectionId, Joiner>;

}  // namespace poseidon::comm
