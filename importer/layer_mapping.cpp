#include "importer/layer_mapping.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/counted.h"
#include "core/error.h"

namespace poseidon::importer {

namespace {

struct UnsupportedType {
  std::string_view type, reason;
};

constexpr std::array kUnsupportedTypes{
    UnsupportedType{"BatchReindex",
                    "Poseidon's layers cannot select or reorder the samples of a batch"},
    UnsupportedType{"Embed", "Poseidon's inputs are images, not word indices"},
    UnsupportedType{"Filter", "Poseidon's layers cannot select or reorder the samples of a batch"},
    UnsupportedType{"HDF5Output", "--classify and --test report the network's results"},
    UnsupportedType{"Im2col", "it is an internal step of Caffe's convolution"},
    UnsupportedType{"LSTM", "Poseidon has no recurrent layers"},
    UnsupportedType{"Parameter", "Poseidon has no layer that only holds a parameter"},
    UnsupportedType{"Python", "it runs Python code, which the file does not contain"},
    UnsupportedType{"RNN", "Poseidon has no recurrent layers"},
    UnsupportedType{"Recurrent", "Poseidon has no recurrent layers"},
    UnsupportedType{"SPP", "write the pooling of each size as a separate layer"},
};

void refuse_field(const MessageReader& from, std::string_view field, const std::string& why,
                  Remarks& remarks) {
  remarks.refuse(from.place_of(field), text("\"", field, "\": ", why));
}

void put_constant(Json& filler, const MessageReader& from) {
  filler["value"] = plain_number(from.number("value").value_or(0));
}

void put_uniform(Json& filler, const MessageReader& from) {
  filler["minimum"] = plain_number(from.number("min").value_or(0));
  filler["maximum"] = plain_number(from.number("max").value_or(1));
}

void put_gaussian(Json& filler, const MessageReader& from) {
  if (const double mean = from.number("mean").value_or(0); mean != 0)
    filler["mean"] = plain_number(mean);
  filler["deviation"] = plain_number(from.number("std").value_or(1));
  if (const int64_t sparse = from.integer("sparse").value_or(-1); sparse >= 0)
    filler["sparse"] = sparse;
}

/// Warns if "variance_norm" is not FAN_IN. Poseidon's fillers always use the number of inputs of a
/// unit.
void check_norm(const MessageReader& from, Remarks& remarks) {
  const auto norm = from.word("variance_norm", {"FAN_IN", "FAN_OUT", "AVERAGE"});
  if (norm && *norm != "FAN_IN")
    remarks.warn(from.place_of("variance_norm"),
                 "Poseidon's filler uses the number of inputs (FAN_IN), not " + *norm);
}

}  // namespace

LayerMapping mapping_of(std::string_view type) {
  for (const auto& part : {weighted_mappings(), plain_mappings(), loss_mappings()})
    for (const LayerMappingEntry& entry : part)
      if (entry.type == type) return entry.map;
  return nullptr;
}

std::string unsupported_reason(std::string_view type) {
  const auto found = std::ranges::find(kUnsupportedTypes, type, &UnsupportedType::type);
  return found == kUnsupportedTypes.end() ? "" : std::string(found->reason);
}

Json plain_number(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

Json plain_numbers(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(plain_number(value));
  return list;
}

void put_number(Json& keys, const char* key, const MessageReader& from, std::string_view field) {
  if (const auto value = from.number(field)) keys[key] = plain_number(*value);
}

Json pair_of(const MessageReader& from, std::string_view both, std::string_view height,
             std::string_view width, Remarks& remarks) {
  const std::vector<int64_t> values = from.integers(both, kExtent);
  const auto rows = from.integer(height, kExtent), columns = from.integer(width, kExtent);
  if (rows.has_value() != columns.has_value())
    fail_at(from.place_of(rows ? height : width),
            text("expected \"", height, "\" and \"", width, "\", got only one"));
  if (rows && !values.empty())
    fail_at(from.place_of(both), text("\"", both, "\" and \"", height, "\" exclude each other"));
  if (values.size() > 2)
    refuse_field(from, both, "expected height and width, got " + counted(values.size(), "extent"),
                 remarks);
  const int64_t first = rows ? *rows : values.empty() ? -1 : values[0];
  const int64_t second = columns ? *columns : values.size() > 1 ? values[1] : first;
  if (first < 0) return nullptr;
  if (first == second) return first;
  return Json{first, second};
}

Json filler_of(const MessageReader& from, std::string_view field, double constant,
               Remarks& remarks) {
  const MessageReader filler = from.message(field);
  if (!from.has(field)) return {{"type", "constant"}, {"value", plain_number(constant)}};
  const std::string type = filler.text("type").value_or("constant");
  Json json{{"type", type}};
  if (type == "constant") {
    put_constant(json, filler);
  } else if (type == "uniform") {
    put_uniform(json, filler);
  } else if (type == "gaussian") {
    put_gaussian(json, filler);
  } else if (type == "xavier" || type == "msra") {
    json["type"] = type == "msra" ? "he" : "xavier";
    check_norm(filler, remarks);
  } else if (type != "positive_unitball" && type != "bilinear") {
    remarks.warn(filler.place_of("type"),
                 "Poseidon has no filler \"" + type + "\": network.json uses \"xavier\"");
    json["type"] = "xavier";
  }
  filler.mark_as_read({"value", "min", "max", "mean", "std", "sparse", "variance_norm"});
  return json;
}

void expect_integer(const MessageReader& from, std::string_view field, int64_t only,
                    const std::string& why, Remarks& remarks) {
  const auto value = from.integer(field);
  if (value && *value != only)
    refuse_field(from, field, text("expected ", only, ", got ", *value, ": ", why), remarks);
}

void put_multipliers(Json& keys, std::span<const CaffeParam> params) {
  const auto put = [&](const char* key, double CaffeParam::*member) {
    std::vector<double> values;
    for (const CaffeParam& param : params) values.push_back(param.*member);
    if (std::ranges::any_of(values, [](double value) { return value != 1; }))
      keys[key] = plain_numbers(values);
  };
  put("learning_rate_multipliers", &CaffeParam::rate);
  put("decay_multipliers", &CaffeParam::decay);
}

std::vector<CaffeParam> params_of(const CaffeLayer& layer, int parameters, Remarks& remarks) {
  const auto count = static_cast<size_t>(parameters);
  if (layer.params.size() > count && count > 0)
    remarks.note(layer.place(),
                 text(layer.shown(), " learns ", counted(count, "tensor"), " and has ",
                      layer.params.size(), " multipliers: the further multipliers are ignored"));
  std::vector<CaffeParam> params = layer.params;
  params.resize(count);
  for (const CaffeParam& param : params)
    if (param.rate < 0 || param.decay < 0)
      fail_at(layer.place(), text(layer.shown(), ": expected multipliers >= 0, got ",
                                  param.rate < 0 ? param.rate : param.decay));
  return params;
}

}  // namespace poseidon::importer
