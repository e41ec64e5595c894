#include "trainer/messages/job_message.h"

namespace poseidon::trainer {

void JobMessage::describe(Fields& fields) {
  fields.text("file", file, "path of the job file, for errors", Presence::kRequired);
  fields.raw("config", config, "the resolved job", Presence::kRequired);
  fields.raw("network", network, "its network", Presence::kRequired);
  fields.text("network_file", network_file, "path of the network file, for errors",
              Presence::kRequired);
  fields.raw("times", times, "measured layer times, for device replay");
  fields.boolean("times_layers", times_layers,
                 "each worker measures its layer times before the plan is made");
  fields.text("run", run, "id of the run");
  fields.boolean("goes_on", goes_on, "resumes from the latest step that any member has");
  fields.raw("plan", plan, "plan of a running job");
}

JobMessage job_message(const Job& job) {
  const auto times = [&] {
    LayerTimes copy = *job.times;
    return write_fields([&](Fields& fields) { copy.describe(fields); });
  };
  return {.file = job.file,
          .config = resolved(job.config),
          .network = job.network->json(),
          .network_file = job.config.network,
          .times = job.times ? times() : Json(),
          .run = "",
          .plan = {}};
}

Json write_job_message(JobMessage message) {
  return write_fields([&](Fields& fields) { message.describe(fields); });
}

JobMessage read_job_message(const Json& json) {
  JobMessage message;
  read_fields(json, {"the job message", ""}, [&](Fields& fields) { message.describe(fields); });
  return message;
}

}  // namespace poseidon::trainer
