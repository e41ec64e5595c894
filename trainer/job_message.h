#pragma once

#include <string>
#include <vector>

#include "comm/messages.h"
#include "comm/plan.h"
#include "trainer/checkpoint.h"
#include "trainer/job.h"
#include "trainer/member_options.h"
#include "trainer/schedule.h"

/// What the coordinator tells the members of a job beyond comm's own messages.
namespace poseidon::trainer {

/// The job as a member gets it: a resolved job file and its network.
struct JobMessage {
  std::string file;  ///< for messages
  Json config = Json::object();
  Json network = Json::object();
  std::string network_file;   ///< for messages
  bool times_layers = false;  ///< a worker tells how long each takes before the plan is made
  std::string run;            ///< RunDirectory::id()
  bool goes_on = false;       ///< from the latest step of the run that anybody has
  void describe(Fields& fields);
};

/// The message that says nothing beyond the job.
JobMessage job_message(const Job& job);
Json write_job_message(JobMessage message);
JobMessage read_job_message(const Json& json);
/// Throws ConfigError where the job is none, or its data are not here.
Job open_job_message(const JobMessage& message, const MemberOptions& options);

/// What must be the same on all workers once data are open.
std::vector<comm::Fact> facts_of(const Job& job, const PreparedData& train,
                                 const PreparedData& test);
/// The value of a fact, "" when there is none.
std::string fact(const std::vector<comm::Fact>& facts, const std::string& name);
/// The number of training samples among them. Throws ConfigError where it is none.
int64_t training_samples(const std::vector<comm::Fact>& facts);

/// The plan and how far the run goes.
struct PublishedPlan {
  Json plan = Json::object();
  Json choices = Json::object();
  int64_t steps = 0;       ///< of the whole job
  int64_t first_step = 0;  ///< steps done already
  int64_t last_step = 0;   ///< where this run ends
  int64_t in_flight = 0;   ///< of the steps done, those whose sums the first values carry
  bool trace = false;      ///< all members record what they do
  void describe(Fields& fields);
};

Json write_published_plan(PublishedPlan published);
PublishedPlan read_published_plan(const Json& json);
/// The plan in it. Throws ConfigError where it is for another job, or has no place for `self`.
comm::Plan read_sync_plan(const PublishedPlan& published, const Job& job, comm::NodeId self);

/// What one process may send, Mb/s, of its node's limit: a worker and a server on one host have
/// half each. 0: no limit.
double bandwidth_share(const JobConfig& config);

/// The layers that go by sufficient factors.
std::vector<std::string> factored_layers(const comm::Plan& plan);

/// What a checkpoint says beside its tensors, and beside what it carries in flight.
RunState run_state(const Job& job, const PublishedPlan& published, const Schedule& schedule,
                   int64_t step, const net::Choices& choices, const std::string& dataset);

}  // namespace poseidon::trainer
