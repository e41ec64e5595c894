#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "importer/caffe_data.h"

namespace poseidon::importer {

/// The sources of a job file: a solver, data layers, or both.
struct JobSources {
  std::string network_name;
  std::optional<MessageReader> solver;
  std::optional<CaffeData> train, test;
  std::string mean_image;   ///< path of the PFM file that was converted from a mean file; "": none
  bool bgr_to_rgb = false;  ///< reverse the channel order of the means
};

/// Paths of the packed data that an imported job uses, relative to the job file.
inline constexpr const char *kTrainData = "data/train", *kTestData = "data/test";

/// Creates the content of a job file. Throws ConfigError with file, line and column if a field is
/// invalid.
Json map_job(const JobSources& sources, Remarks& remarks);

/// Returns the position of the solver's field that sets the job's key at the JSON pointer
/// `pointer`. If there is no such field, returns the position of the solver.
Place place_of_key(const MessageReader& solver, const std::string& pointer);

}  // namespace poseidon::importer
