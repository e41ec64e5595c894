#include "trainer/coordinator/coordinator_io.h"

namespace poseidon::trainer {

CoordinatorIo::CoordinatorIo(const JoinOptions& join_options, RunPlan plan, Log& log,
                             std::function<void(std::exception_ptr)> failed)
    : side_{.plan = std::move(plan),
            .kept = {},
            .reception = {},
            .state_transfer = {},
            .restored = {}} {
  comm::AsioOptions listening;
  listening.listen = join_options.listen;
  listening.self = {.role = comm::Role::kCoordinator,
                    .rank = 0,
                    .view = 1,
                    .job = comm::make_job_id(),
                    .address = ""};
  listening.secret = join_options.secret;
  listening.tls = join_options.tls;
  listening.insecure = join_options.insecure;
  listening.log = std::shared_ptr<Log>(&log, [](Log*) {});
  listening.on_failure = std::move(failed);
  transport_ = std::make_unique<comm::AsioTransport>(std::move(listening));
}

void CoordinatorIo::begin(CoordinatorSetting setting, const comm::Coordinator::Options& options) {
  transport_->control_congestion(setting.job.config.comm.congestion_control);
  session_ = std::make_unique<CoordinatorSession>(std::move(setting), side_);
  coordinator_ = std::make_unique<comm::Coordinator>(options, *transport_, session_->host());
  side_.coordinator = coordinator_.get();
  transport_->start(*coordinator_);
}

}  // namespace poseidon::trainer
