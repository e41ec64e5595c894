#pragma once

#include <string>

#include "core/fields.h"
#include "core/json.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// The job as a member gets it: a resolved job file and its network.
struct JobMessage {
  std::string file;  ///< for messages
  Json config = Json::object();
  Json network = Json::object();
  std::string network_file;   ///< for messages
  Json times;                 ///< of the device "replay": LayerTimes; else null
  bool times_layers = false;  ///< a worker tells how long each takes before the plan is made
  std::string run;            ///< RunDirectory::id()
  bool goes_on = false;       ///< from the latest step of the run that anybody has
  Json plan;                  ///< of a job that runs: PublishedPlan of its view; else null
  void describe(Fields& fields);
};

/// The message that says nothing beyond the job.
JobMessage job_message(const Job& job);
Json write_job_message(JobMessage message);
JobMessage read_job_message(const Json& json);
}  // namespace poseidon::trainer
