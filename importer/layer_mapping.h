#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "importer/caffe_network.h"

namespace poseidon::importer {

/// A layer of ours, as a network file has it, without name and inputs.
struct MappedLayer {
  Json keys;           ///< "type" first
  int parameters = 0;  ///< tensors that it learns
  /// What each input is multiplied by, which layers of their own have to do; empty: nothing.
  std::vector<double> input_factors = {};
};

using LayerMapping = MappedLayer (*)(const CaffeLayer& layer, Remarks& remarks);

/// One type of Caffe's whose layers become one layer of ours.
struct LayerMappingEntry {
  std::string_view type;
  LayerMapping map;
};

// The table is in three parts, each in a file of its own.
std::span<const LayerMappingEntry> weighted_mappings();
std::span<const LayerMappingEntry> plain_mappings();
std::span<const LayerMappingEntry> loss_mappings();

/// Null for a type that is not in the table.
LayerMapping mapping_of(std::string_view type);

/// Why a type of Caffe's has no equal; "" for one that Caffe has not either.
std::string reason_for_none(std::string_view type);

// What mappings share.

/// An integer where a number is one, as people write it.
Json plain_number(double value);
Json plain_numbers(std::span<const double> values);
/// Puts a number that is given into `keys`, and leaves it out otherwise.
void put_number(Json& keys, const char* key, const MessageReader& from, std::string_view field);

/// height and width, from one field for both or one for each: 3, or [3, 5]. Null where none is
/// given.
Json pair_of(const MessageReader& from, std::string_view both, std::string_view height,
             std::string_view width, Remarks& remarks);

/// The filler that a field names. Caffe's is constant 0 where there is none.
Json filler_of(const MessageReader& from, std::string_view field, double constant,
               Remarks& remarks);

/// Refuses a field that is given as another integer than `only`.
void expect_integer(const MessageReader& from, std::string_view field, int64_t only,
                    const std::string& why, Remarks& remarks);

/// "learning_rate_multipliers" and "decay_multipliers", where they are not all 1.
void put_multipliers(Json& keys, std::span<const CaffeParam> params);

/// What a layer's "param" blocks say, for each of the tensors that it learns.
std::vector<CaffeParam> params_of(const CaffeLayer& layer, int parameters, Remarks& remarks);

}  // namespace poseidon::importer
