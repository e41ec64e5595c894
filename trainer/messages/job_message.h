#pragma once

#include <string>

#include "core/fields.h"
#include "core/json.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// The job as the coordinator sends it to a member: the resolved job file and its network.
struct JobMessage {
  std::string file;  ///< path of the job file, for errors
  Json config = Json::object();
  Json network = Json::object();
  std::string network_file;   ///< path of the network file, for errors
  Json times;                 ///< for the device "replay": measured LayerTimes; else null
  bool times_layers = false;  ///< workers time their layers before the plan is made
  std::string run;            ///< RunDirectory::id()
  bool goes_on = false;       ///< resume from the latest step of the run that any process has
  Json plan;                  ///< for a joiner of a running job: PublishedPlan; else null
  void describe(Fields& fields);
};

/// A message with only the job: the caller sets the members from `times_layers` on.
JobMessage job_message(const Job& job);
Json write_job_message(JobMessage message);
JobMessage read_job_message(const Json& json);
}  // namespace poseidon::trainer
