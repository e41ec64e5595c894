#include "trainer/messages/notes.h"

#include "comm/plan/plan.h"

namespace poseidon::trainer {

namespace {

constexpr auto kRequired = Presence::kRequired;
constexpr Range kMeasured = between(0, 1e12);
constexpr Range kBytes = between(0, 9e18);
/// Range of a clock that starts at boot. Sums and differences of two values do not overflow 64
/// bits.
constexpr Range kNanoseconds = between(0, 2e18);

void describe_count(Fields& fields, const char* key, uint64_t& count, const char* doc) {
  auto value = static_cast<int64_t>(count);
  fields.integer(key, value, kBytes, doc, kRequired);
  count = static_cast<uint64_t>(value);
}

void describe_sums(Fields& fields, std::vector<SampleSums>& sums) {
  fields.objects(
      "shards", sums.size(), [&](size_t size) { sums.resize(size); },
      [&](Fields& f, size_t i) {
        f.number("loss", sums[i].loss, Range{}, "sum over its samples", kRequired);
        f.numbers("scalars", sums[i].scalars, Range{}, "sums of what layers report", kRequired);
      },
      "by logical shard of the worker", kRequired);
}

}  // namespace

void TensorsNote::describe(Fields& fields) {
  fields.raw("list", list, "names and shapes", kRequired);
  fields.raw("choices", choices, "layout and algorithm by layer", kRequired);
  fields.raw("implementations", implementations, "by layer, the code of each pass", kRequired);
  fields.integer("threads", threads, between(1, 1 << 16), "that compute", kRequired);
}

void CheckpointOfferNote::describe(Fields& fields) {
  fields.text("run", run, "id of the run that made the step", kRequired);
  fields.integer("rank", rank, between(0, 65535), "of the worker in the run's last view",
                 kRequired);
  fields.object(
      "state", [this](Fields& f) { state.describe(f); }, "of the step", kRequired);
  fields.raw("list", list, "of a checkpoint's tensors", kRequired);
}

void SavedReportNote::describe(Fields& fields) {
  fields.text("report", report, "a note of a step or a test", kRequired);
}

void ValuesNote::describe(Fields& fields) {
  fields.integers("tensors", tensors, at_least(0), "by their indices", kRequired);
}

void ClassesNote::describe(Fields& fields) {
  fields.texts("classes", classes, "names, in order of their labels", kRequired);
}

void StepNote::describe(Fields& fields) {
  describe_sums(fields, shards);
  fields.number("learning_rate", learning_rate, Range{}, "of the step", kRequired);
  fields.number("compute_ms", times.compute_ms, kMeasured, "of the step", kRequired);
  fields.number("data_wait_ms", times.data_wait_ms, kMeasured, "of the step", kRequired);
  fields.number("sum_wait_ms", times.sum_wait_ms, kMeasured, "of the step", kRequired);
  fields.numbers("layer_wait_ms", layer_wait_ms, kMeasured, "by layer of the plan", kRequired);
  for (const comm::Scheme scheme : comm::kSendingSchemes)
    fields.integer(comm::bytes_key(scheme), bytes[scheme], kBytes, "moved since the last note",
                   kRequired);
}

void TestNote::describe(Fields& fields) {
  fields.integer("samples", sums.samples, between(0, 1e15), "tested by this worker", kRequired);
  describe_sums(fields, sums.parts);
  fields.number("seconds", sums.seconds, between(0, 1e9), "that it took", kRequired);
}

void TrafficNote::describe(Fields& fields) {
  fields.objects(
      "layers", layers.size(), [&](size_t size) { layers.resize(size); },
      [&](Fields& f, size_t i) {
        describe_count(f, "sent", layers[i].sent, "payload");
        describe_count(f, "received", layers[i].received, "payload");
        describe_count(f, "blocks", layers[i].rounded.all, "of rounded gradients");
        describe_count(f, "below", layers[i].rounded.below, "blocks at the lower end of the range");
        describe_count(f, "beyond", layers[i].rounded.beyond, "blocks beyond the range");
      },
      "by layer of the plan", kRequired);
}

void TraceNote::describe(Fields& fields) {
  fields.objects(
      "labels", labels.size(), [&](size_t size) { labels.resize(size); },
      [&](Fields& f, size_t i) {
        f.text("track", labels[i].track, "row that it is drawn in", kRequired);
        f.text("category", labels[i].category, "forward, sum, ...", kRequired);
        f.text("name", labels[i].name, "of a layer", kRequired);
      },
      "what the spans measure", kRequired);
  fields.integer("origin_ns", origin_ns, kNanoseconds, "begin times count from it", kRequired);
  fields.integers("spans", spans, between(-2e18, 2e18), "six numbers each", kRequired);
}

void ClockNote::describe(Fields& fields) {
  fields.integer("asked_ns", asked_ns, kNanoseconds, "the coordinator's clock", kRequired);
  fields.integer("there_ns", there_ns, kNanoseconds, "the member's; of a question 0");
}

void SentCheckpoint::describe(Fields& fields) {
  fields.integer("number", number, between(0, UINT32_MAX), "", Presence::kRequired);
  fields.integer("sums_in_flight", in_flight, between(0, comm::kMaxStaleness), "",
                 Presence::kRequired);
  fields.integers("digest", digest, between(0, UINT32_MAX), "CRC-32C by tensor",
                  Presence::kRequired);
}

}  // namespace poseidon::trainer
