#include "comm/plan/assignment_json.h"
#include "comm/plan/chunks.h"
#include "comm/plan/plan.h"
#include "comm/plan/scheme_costs.h"
#include "comm/wire/slices.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/fields.h"

namespace poseidon::comm {

namespace {

constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kMaxElements = int64_t{1} << 40;

Json layer_json(const LayerPlan& layer) {
  const LayerTraffic& traffic = layer.traffic;
  Json tensors = Json::array();
  for (const TensorTraffic& tensor : traffic.tensors)
    tensors.push_back(
        {{"name", tensor.name}, {"elements", tensor.elements}, {"statistic", tensor.statistic}});
  Json json{{"name", traffic.name},
            {"type", traffic.type},
            {"rows", traffic.rows},
            {"columns", traffic.columns}};
  for (const Scheme scheme : kSendingSchemes) {
    const double bytes = layer.formula_bytes[scheme];
    json[bytes_key(scheme)] = bytes < 0 ? Json() : Json(bytes);
  }
  json["bytes"] = layer.bytes;
  json["scheme"] = name_of(layer.scheme);
  json["tensors"] = std::move(tensors);
  return json;
}

Json chunk_json(const Chunk& chunk) {
  Json pieces = Json::array();
  for (const Piece& piece : chunk.pieces)
    pieces.push_back({{"layer", piece.layer},
                      {"tensor", piece.tensor},
                      {"first", piece.first},
                      {"count", piece.count}});
  return {{"server", chunk.server}, {"key", chunk.key}, {"pieces", std::move(pieces)}};
}

/// Permits these keys and ignores their values.
void skip(Fields& fields, std::initializer_list<const char*> keys) {
  Json unused;
  for (const char* key : keys) fields.raw(key, unused, "");
}

void read_index(Fields& fields, const char* key, uint32_t& value) {
  int64_t wide = 0;
  fields.integer(key, wide, between(0, kMaxShards), "", Presence::kRequired);
  value = static_cast<uint32_t>(wide);
}

void read_tensor(Fields& fields, TensorTraffic& tensor) {
  fields.text("name", tensor.name, "", Presence::kRequired);
  fields.integer("elements", tensor.elements, between(1, kMaxElements), "", Presence::kRequired);
  fields.boolean("statistic", tensor.statistic, "");
}

void read_layer(Fields& fields, LayerPlan& layer) {
  LayerTraffic& traffic = layer.traffic;
  fields.text("name", traffic.name, "", Presence::kRequired);
  fields.text("type", traffic.type, "", Presence::kRequired);
  fields.option("scheme", layer.scheme, names_of<Scheme>(), "", Presence::kRequired);
  fields.objects(
      "tensors", 0, [&](size_t size) { traffic.tensors.resize(size); },
      [&](Fields& f, size_t i) { read_tensor(f, traffic.tensors[i]); }, "", Presence::kRequired);
  // The last two are in the output of --plan.
  skip(fields, {"rows", "columns", "ps_bytes", "sfb_bytes", "bytes", "schemes", "reason"});
}

void read_piece(Fields& fields, Piece& piece) {
  read_index(fields, "layer", piece.layer);
  read_index(fields, "tensor", piece.tensor);
  fields.integer("first", piece.first, between(0, kMaxElements), "", Presence::kRequired);
  fields.integer("count", piece.count, between(1, kMaxElements), "", Presence::kRequired);
}

void read_chunk(Fields& fields, Chunk& chunk) {
  read_index(fields, "server", chunk.server);
  read_index(fields, "key", chunk.key);
  fields.objects(
      "pieces", 0, [&](size_t size) { chunk.pieces.resize(size); },
      [&](Fields& f, size_t i) { read_piece(f, chunk.pieces[i]); }, "", Presence::kRequired);
}

void read_top(Fields& fields, Plan& plan) {
  const auto required = Presence::kRequired;
  fields.integer("global_batch", plan.global_batch, between(1, kMaxSamples), "", required);
  fields.option("policy", plan.policy, names_of<Policy>(), "", required);
  fields.option("wire", plan.wire, names_of<WireFormat>(), "", required);
  fields.option("overlap", plan.overlap, names_of<Overlap>(), "", required);
  fields.integer("staleness", plan.staleness, between(0, kMaxStaleness), "");
  fields.number("link_mbps", plan.link_mbps, between(0, 1e12), "");
  fields.number("processor_ns_per_byte", plan.processor_ns_per_byte, between(0, 1e12), "");
  fields.number("predicted_step_ms", plan.predicted_step_ms, between(0, 1e12), "");
  fields.objects(
      "layers", 0, [&](size_t size) { plan.layers.resize(size); },
      [&](Fields& f, size_t i) { read_layer(f, plan.layers[i]); }, "", required);
  fields.objects(
      "chunks", 0, [&](size_t size) { plan.chunks.resize(size); },
      [&](Fields& f, size_t i) { read_chunk(f, plan.chunks[i]); }, "", required);
  // The plan.json of a run also contains devices, implementations, and why no layer uses factors.
  // --plan adds advice and a simulated step.
  skip(fields, {"batch_per_worker", "bytes_per_node", "hottest_shard_over_mean", "choices",
                "implementations", "devices", "reason", "advice", "simulated_step_ms"});
}

/// Checks a layer of the plan against the layer of this network, and copies the values that files
/// do not contain.
void match_layer(LayerPlan& layer, const LayerTraffic& known, const JsonPath& place) {
  const LayerTraffic& read = layer.traffic;
  if (read.name != known.name || read.type != known.type)
    fail_at(place, text("expected the ", known.type, " layer \"", known.name,
                        "\" of this network, got the ", read.type, " layer \"", read.name, "\""));
  if (read.tensors != known.tensors)
    fail_at(place.at("tensors"),
            text("expected the tensors of layer \"", known.name, "\" of this network, got others"));
  if (const std::string fault = costs_of(layer.scheme).fault_of(known); !fault.empty())
    fail_at(place.at("scheme"),
            text("expected a scheme other than \"", name_of(layer.scheme), "\" for the ",
                 known.type, " layer \"", known.name, "\": ", fault));
  layer.traffic = known;
}

void match_layers(Plan& plan, const std::vector<LayerTraffic>& layers, const JsonPath& place) {
  if (plan.layers.size() != layers.size())
    fail_at(place.at("layers"),
            text("expected the ", layers.size(), " layers of this network that need sums, got ",
                 plan.layers.size()));
  const Scheme expected = scheme_without_factors(plan.workers());
  for (size_t i = 0; i < layers.size(); ++i) {
    const JsonPath at = place.at("layers").at(i);
    match_layer(plan.layers[i], layers[i], at);
    const Scheme scheme = plan.layers[i].scheme;
    if (!traits_of(scheme).sends_factors() && scheme != expected)
      fail_at(at.at("scheme"), text("expected a scheme other than \"", name_of(scheme), "\" for ",
                                    counted(plan.workers(), "worker")));
  }
}

/// Checks that chunks hold every element that servers sum exactly once, in order.
class ChunkChecker {
 public:
  ChunkChecker(const Plan& plan, const JsonPath& place)
      : plan_(plan), place_(place), tensors_(ps_tensors(plan.layers)) {}

  void check() {
    for (size_t i = 0; i < plan_.chunks.size(); ++i)
      check_chunk(plan_.chunks[i], place_.at("chunks").at(i));
    if (tensor_ < tensors_.size())
      fail_at(place_.at("chunks"), text("the elements from index ", done_, " of ",
                                        name_of_piece(tensors_[tensor_]), " are missing"));
  }

 private:
  void check_chunk(const Chunk& chunk, const JsonPath& place) {
    if (chunk.server >= plan_.servers())
      fail_at(place.at("server"),
              text("expected a server below ", plan_.servers(), ", got ", chunk.server));
    if (chunk.pieces.empty()) fail_at(place.at("pieces"), "expected at least one piece");
    if (chunk.key != chunk.pieces[0].layer)
      fail_at(place.at("key"), text("expected the layer of its first piece, ",
                                    chunk.pieces[0].layer, ", got ", chunk.key));
    for (size_t i = 0; i < chunk.pieces.size(); ++i)
      check_piece(chunk.pieces[i], chunk, place.at("pieces").at(i));
    const auto elements = static_cast<uint64_t>(chunk.elements());
    if (elements > kMaxSlices * kSliceElements)
      fail_at(place.at("pieces"),
              text("expected at most ", kMaxSlices * kSliceElements, " elements, got ", elements));
  }

  void check_piece(const Piece& piece, const Chunk& chunk, const JsonPath& place) {
    if (tensor_ == tensors_.size())
      fail_at(place,
              "expected no further piece: earlier pieces contain all elements that servers sum");
    const Piece& tensor = tensors_[tensor_];
    if (piece.layer != tensor.layer || piece.tensor != tensor.tensor || piece.first != done_)
      fail_at(place, text("expected element ", done_, " of ", name_of_piece(tensor),
                          ", got element ", piece.first, " of ", name_of_piece(piece)));
    if (const std::string fault = fault_in_chunk(plan_, chunk, piece); !fault.empty())
      fail_at(place, fault);
    if (piece.first % kLeastCutElements != 0)
      fail_at(place.at("first"),
              text("expected a multiple of ", kLeastCutElements, ", got ", piece.first));
    if (piece.count > tensor.count - done_)
      fail_at(place.at("count"),
              text("expected at most ", tensor.count - done_, ", got ", piece.count));
    done_ += piece.count;
    if (done_ < tensor.count) return;
    ++tensor_;
    done_ = 0;
  }

  static std::string name_of_piece(const Piece& piece) {
    return text("tensor ", piece.tensor, " of layer ", piece.layer);
  }

  const Plan& plan_;
  const JsonPath& place_;
  std::vector<Piece> tensors_;
  size_t tensor_ = 0;  ///< the next tensor; done_ counts its elements seen so far
  int64_t done_ = 0;
};

}  // namespace

Json to_json(const Plan& plan) {
  Json layers = Json::array(), chunks = Json::array();
  for (const LayerPlan& layer : plan.layers) layers.push_back(layer_json(layer));
  for (const Chunk& chunk : plan.chunks) chunks.push_back(chunk_json(chunk));
  return {{"workers", plan.workers()},
          {"servers", plan.servers()},
          {"batch_per_worker",
           static_cast<double>(plan.global_batch) / static_cast<double>(plan.workers())},
          {"policy", name_of(plan.policy)},
          {"layers", std::move(layers)},
          {"bytes_per_node", plan.bytes_per_node},
          {"hottest_shard_over_mean", plan.hottest_shard_over_mean},
          {"link_mbps", plan.link_mbps},
          {"processor_ns_per_byte", plan.processor_ns_per_byte},
          {"predicted_step_ms", plan.predicted_step_ms},
          {"logical_shards", plan.logical_shards()},
          {"global_batch", plan.global_batch},
          {"servers_apart", plan.assignment.servers_apart()},
          {"assignment", to_json(plan.assignment)},
          {"wire", name_of(plan.wire)},
          {"overlap", name_of(plan.overlap)},
          {"staleness", plan.staleness},
          {"chunks", std::move(chunks)}};
}

Plan read_plan(const Json& json, const JsonPath& place, const std::vector<LayerTraffic>& layers) {
  Plan plan;
  MemberCounts counts;
  AssignmentReader assignment;
  read_fields(json, place, [&](Fields& fields) {
    counts.describe(fields);
    assignment.describe(fields);
    read_top(fields, plan);
  });
  plan.assignment = assignment.make(counts, place);
  match_layers(plan, layers, place);
  ChunkChecker(plan, place).check();
  complete(plan);
  return plan;
}

}  // namespace poseidon::comm
