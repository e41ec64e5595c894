#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A node that is let into a job that has begun, and is no member yet: it opens job and data while
/// the members go on.
struct Newcomer {
  NodeId node;  ///< by the id that it was welcomed with, which no other node of the job has
  std::string address;
  bool prepared = false;
  bool sent_proof = false;       ///< a large message of it has arrived (Contact)
  std::vector<Fact> facts = {};  ///< once it is prepared
  std::vector<Note> notes = {};  ///< of the trainer's own
  Time sign_at{0};               ///< when it was last heard of its progress
};

using NewcomerTable = std::map<ConnectionId, Newcomer>;

}  // namespace poseidon::comm
