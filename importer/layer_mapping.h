#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "importer/caffe_network.h"

namespace poseidon::importer {

/// The Poseidon layer that a Caffe layer is mapped to.
struct MappedLayer {
  Json keys;           ///< keys in the network file except name and inputs; "type" is first
  int parameters = 0;  ///< number of learned tensors
  /// Factors for a sum, one for each input. The caller adds a layer for each factor other than 1.
  /// Empty: no factors.
  std::vector<double> input_factors = {};
};

using LayerMapping = MappedLayer (*)(const CaffeLayer& layer, Remarks& remarks);

/// A Caffe layer type and its mapping.
struct LayerMappingEntry {
  std::string_view type;
  LayerMapping map;
};

// The table of all mappings has three parts, in separate files.
std::span<const LayerMappingEntry> weighted_mappings();
std::span<const LayerMappingEntry> plain_mappings();
std::span<const LayerMappingEntry> loss_mappings();

/// Returns the mapping of a Caffe layer type; null: the type is not in the table.
LayerMapping mapping_of(std::string_view type);

/// Returns the reason why Poseidon does not support a Caffe type; "" for other types.
std::string unsupported_reason(std::string_view type);

// Functions that several mappings use.

/// Returns a JSON integer if the number is whole, so that its text has no decimal point.
Json plain_number(double value);
Json plain_numbers(std::span<const double> values);
/// Writes the field's number to `keys` if the field is set.
void put_number(Json& keys, const char* key, const MessageReader& from, std::string_view field);

/// Returns [height, width], or one number if they are equal. Reads the field `both`, or the fields
/// `height` and `width`. Returns null if no field is set.
Json pair_of(const MessageReader& from, std::string_view both, std::string_view height,
             std::string_view width, Remarks& remarks);

/// Returns the filler that a field describes, or the constant `constant` if the field is not set.
/// Warns of an unknown filler and replaces it by "xavier".
Json filler_of(const MessageReader& from, std::string_view field, double constant,
               Remarks& remarks);

/// Refuses (Remarks::refuse) a field that is set to an integer other than `only`. `why` is the
/// reason in the message.
void expect_integer(const MessageReader& from, std::string_view field, int64_t only,
                    const std::string& why, Remarks& remarks);

/// Writes "learning_rate_multipliers" and "decay_multipliers", each only if one of its values
/// differs from 1.
void put_multipliers(Json& keys, std::span<const CaffeParam> params);

/// Returns the "param" settings of a layer, one for each of its `parameters` learned tensors. Adds
/// default settings that the file omits, and drops superfluous ones. Throws ConfigError if a
/// multiplier is negative.
std::vector<CaffeParam> params_of(const CaffeLayer& layer, int parameters, Remarks& remarks);

}  // namespace poseidon::importer
