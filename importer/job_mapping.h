#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "importer/caffe_data.h"

namespace poseidon::importer {

/// What a job is made of: a solver, data layers, or either.
struct JobSources {
  std::string network_name;
  std::optional<MessageReader> solver;
  std::optional<CaffeData> train, test;
  std::string mean_image;   ///< the PFM file that a mean file became; "" where there is none
  bool bgr_to_rgb = false;  ///< means are in the other order
};

/// Where the packed data of an imported job are looked for, seen from its file.
inline constexpr const char *kTrainData = "data/train", *kTestData = "data/test";

/// A job file. Throws ConfigError with file, line and column.
Json map_job(const JobSources& sources, Remarks& remarks);

/// The place in the solver that a key of the job, by its pointer, came from.
Place place_of_key(const MessageReader& solver, const std::string& pointer);

}  // namespace poseidon::importer
