#include "comm/wire/messages.h"

#include "comm/wire/liveness.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

const std::vector<std::string> kRoles{"coordinator", "worker", "server"};
const std::vector<std::string> kKinds{"peer", "stall",  "drift",    "error",
                                      "left", "joined", "unreached"};
constexpr Range kRanks{.minimum = -1, .maximum = 65535};
constexpr Range kSteps{.minimum = 0, .maximum = 1e15};

void describe_facts(Fields& fields, std::vector<Fact>& facts) {
  fields.objects(
      "facts", facts.size(), [&](size_t size) { facts.resize(size); },
      [&](Fields& f, size_t i) {
        f.text("name", facts[i].name, "name of the fact", Presence::kRequired);
        f.text("value", facts[i].value, "the node's value", Presence::kRequired);
      },
      "values that must be equal on all nodes", Presence::kRequired);
}

void describe_members(Fields& fields, int64_t& view, std::vector<RosterEntry>& roster) {
  fields.integer("view", view, between(1, 4e9), "number of the membership", Presence::kRequired);
  fields.objects(
      "roster", roster.size(), [&](size_t size) { roster.resize(size); },
      [&](Fields& f, size_t i) {
        f.option("role", roster[i].role, kRoles, "role of the node", Presence::kRequired);
        f.integer("rank", roster[i].rank, between(0, 65535), "rank within the role",
                  Presence::kRequired);
        f.text("address", roster[i].address, "host:port", Presence::kRequired);
        f.integer("member", roster[i].member, kRanks, "first rank of the node; -1: equal to rank");
      },
      "all nodes of the job", Presence::kRequired);
}

void describe_step(Fields& fields, int64_t& step) {
  fields.integer("step", step, kSteps, "number of completed steps", Presence::kRequired);
}

void describe_failure(Fields& fields, NodeFailure& failure) {
  fields.option("kind", failure.kind, kKinds, "kind of failure", Presence::kRequired);
  fields.option("role", failure.who.role, kRoles, "role of the failed node", Presence::kRequired);
  int64_t rank = failure.who.rank;
  fields.integer("rank", rank, between(0, 65535), "rank of the failed node", Presence::kRequired);
  failure.who.rank = static_cast<uint16_t>(rank);
  fields.text("address", failure.address, "address of the failed node");
  fields.text("why", failure.why, "reason", Presence::kRequired);
  fields.integer("step", failure.step, kSteps, "step in progress, from 1; 0: before the first");
  fields.text("awaited", failure.awaited, "data that a node awaited from the failed one");
}

template <class... Messages>
bool is_one_of(const std::string& type) {
  return ((type == Messages::kType) || ...);
}

bool is_known(const std::string& type) {
  return is_one_of<Join, Welcome, Refused, Prepared, Measure, Met, Probe, Measured, Planned, Ready,
                   Start, Note, Progress, Digest, HaltQuery, HaltOffer, Halt, Pause, Paused, Lost,
                   Failed, Regroup, LeftView, Stopped, Save, Saved, CannotSave, Finished, Conclude,
                   Dismissed>(type);
}

}  // namespace

void Join::describe(Fields& fields) {
  fields.option("role", role, kRoles, "role of the joining node", Presence::kRequired);
  fields.integer("wanted_rank", wanted_rank, kRanks, "requested rank; -1: any");
  fields.text("address", address, "address for the other nodes", Presence::kRequired);
  describe_facts(fields, facts);
}

void Welcome::describe(Fields& fields) {
  fields.integer("rank", rank, between(0, 65535), "rank within the role", Presence::kRequired);
  fields.number("timeout_s", timeout_s, between(kMinTimeoutSeconds, kMaxTimeoutSeconds),
                "seconds without a heartbeat after which a node has failed", Presence::kRequired);
  fields.integer("workers", workers, between(0, 65536), "maximum number of workers",
                 Presence::kRequired);
  fields.integer("servers", servers, between(0, 65536), "maximum number of servers",
                 Presence::kRequired);
  fields.raw("job", job, "content for the trainer", Presence::kRequired);
}

void Refused::describe(Fields& fields) { fields.text("why", why, "reason", Presence::kRequired); }

void Prepared::describe(Fields& fields) { describe_facts(fields, facts); }

void Measure::describe(Fields& fields) {
  describe_members(fields, view, roster);
  fields.integer("to", to, between(0, 65535), "worker to send to", Presence::kRequired);
  fields.integer("from", from, between(0, 65535), "worker to receive from", Presence::kRequired);
}

void Measured::describe(Fields& fields) {
  fields.number("mbps", rate.mbps, kPositive, "received 10^6 bits a second", Presence::kRequired);
  fields.number("processor_ns_per_byte", rate.processor_ns_per_byte, at_least(0),
                "processor time for each byte sent or received", Presence::kRequired);
}

void Planned::describe(Fields& fields) {
  describe_members(fields, view, roster);
  fields.raw("plan", plan, "the sync plan", Presence::kRequired);
}

void Ready::describe(Fields& fields) {
  fields.integers("digest", digest, at_least(0), "CRC-32C of each tensor", Presence::kRequired);
}

void Start::describe(Fields& fields) {
  fields.integer("first_step", first_step, kSteps, "counted from 0", Presence::kRequired);
}

void Note::describe(Fields& fields) {
  fields.text("about", about, "subject", Presence::kRequired);
  describe_step(fields, step);
  fields.raw("content", content, "content for the trainer", Presence::kRequired);
}

void Progress::describe(Fields& fields) {
  fields.text("doing", doing, "current activity", Presence::kRequired);
  fields.integer("done", done, at_least(0), "completed parts");
  fields.integer("of", of, at_least(0), "number of parts; 0: not counted");
  fields.text("unit", unit, "unit of the parts");
  fields.boolean("waits", waits, "whether it waits for other nodes");
}

void Digest::describe(Fields& fields) {
  describe_step(fields, step);
  fields.integer("turn", turn, between(kAll, kDigestTurns - 1), "group of tensors; -1: all");
  fields.integers("values", values, at_least(0), "CRC-32C of each tensor", Presence::kRequired);
}

void HaltOffer::describe(Fields& fields) { describe_step(fields, step); }
void Halt::describe(Fields& fields) { describe_step(fields, step); }
void Pause::describe(Fields& fields) { describe_step(fields, step); }
void Paused::describe(Fields& fields) { describe_step(fields, step); }
void Lost::describe(Fields& fields) { describe_failure(fields, failure); }
void Failed::describe(Fields& fields) { describe_failure(fields, failure); }
void Regroup::describe(Fields& fields) { describe_failure(fields, failure); }
void LeftView::describe(Fields& fields) {
  describe_step(fields, step);
  fields.integer("least", least, at_least(0), "first step to which it can return",
                 Presence::kRequired);
}
void Stopped::describe(Fields& fields) { describe_step(fields, step); }
void Save::describe(Fields& fields) { describe_step(fields, step); }
void Saved::describe(Fields& fields) { describe_step(fields, step); }
void CannotSave::describe(Fields& fields) {
  fields.text("why", why, "reason", Presence::kRequired);
}
void Finished::describe(Fields& fields) { describe_step(fields, step); }

namespace {

/// Removes the step from the front of a training loop's error, because NodeFailure::message()
/// already names the step.
std::string without_step(const std::string& why, int64_t step) {
  const std::string known = text("step ", step, ": ");
  return why.starts_with(known) ? why.substr(known.size()) : why;
}

}  // namespace

std::string NodeFailure::message() const {
  const std::string node = name_of(who) + (address.empty() ? "" : " (" + address + ")");
  const std::string when = step == 0 ? " before the first step" : text(" in step ", step);
  const std::string waiting = awaited.empty() ? "" : "; " + awaited;
  switch (kind) {
    case Kind::kPeer: return node + " failed" + when + ": " + why + waiting;
    case Kind::kStall: return node + " stalled" + when + ": " + why + waiting;
    case Kind::kDiverged:
      return (who.role == Role::kCoordinator ? "the workers diverged"
                                             : node + " diverged from the other workers") +
             when + ": " + why;
    case Kind::kError: return node + " failed" + when + ": " + without_step(why, step);
    case Kind::kLeft: return node + " left" + when + ": " + why;
    case Kind::kJoined:
      return (who.role == Role::kCoordinator ? "no joiner remains" : node + " joins") +
             text(" after step ", step);
    case Kind::kUnreached: return why;
  }
  return why;
}

ControlMessage::ControlMessage(std::span<const std::byte> body) {
  json_ =
      parse_json({reinterpret_cast<const char*>(body.data()), body.size()}, "a control message");
  if (!json_.is_object() || !json_.contains("type") || !json_["type"].is_string())
    throw ConfigError("expected a control message with a string \"type\"");
  type_ = json_["type"].get<std::string>();
  if (!is_known(type_)) throw ConfigError("unknown type of a control message: " + shown(type_));
  json_.erase("type");
}

}  // namespace poseidon::comm
