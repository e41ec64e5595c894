#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "importer/caffe_network.h"

namespace poseidon::importer {

/// A Poseidon layer as in a network file, without name and inputs.
struct MappedLayer {
  Json keys;           ///< "type" first
  int parameters = 0;  ///< number of learned tensors
  /// A factor for each input, applied by separate layers; empty: no factors.
  std::vector<double> input_factors = {};
};

using LayerMapping = MappedLayer (*)(const CaffeLayer& layer, Remarks& remarks);

/// Maps a Caffe layer type to one Poseidon layer.
struct LayerMappingEntry {
  std::string_view type;
  LayerMapping map;
};

// The table has three parts, in separate files.
std::span<const LayerMappingEntry> weighted_mappings();
std::span<const LayerMappingEntry> plain_mappings();
std::span<const LayerMappingEntry> loss_mappings();

/// Returns null for a type that is not in the table.
LayerMapping mapping_of(std::string_view type);

/// Returns the reason why Poseidon does not support a Caffe type; "" for other types.
std::string unsupported_reason(std::string_view type);

// Functions that several mappings use.

/// Returns an integer if the number is whole, so that the JSON text has no decimal point.
Json plain_number(double value);
Json plain_numbers(std::span<const double> values);
/// Writes the field's number to `keys` if the field is set.
void put_number(Json& keys, const char* key, const MessageReader& from, std::string_view field);

/// Returns height and width, from one field for both or one field for each: 3, or [3, 5]. Returns
/// null if no field is set.
Json pair_of(const MessageReader& from, std::string_view both, std::string_view height,
             std::string_view width, Remarks& remarks);

/// Returns the filler that a field describes, or the constant `constant` if the field is not set.
Json filler_of(const MessageReader& from, std::string_view field, double constant,
               Remarks& remarks);

/// Refuses a field that is set to an integer other than `only`.
void expect_integer(const MessageReader& from, std::string_view field, int64_t only,
                    const std::string& why, Remarks& remarks);

/// Writes "learning_rate_multipliers" and "decay_multipliers" if they are not all 1.
void put_multipliers(Json& keys, std::span<const CaffeParam> params);

/// Returns the "param" settings of a layer, one for each learned tensor.
std::vector<CaffeParam> params_of(const CaffeLayer& layer, int parameters, Remarks& remarks);

}  // namespace poseidon::importer
