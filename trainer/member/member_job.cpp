#include "trainer/member/member_job.h"

#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// Sets job.own_device to the devices of --device. The device "replay" applies to all workers, so
/// it is not replaced. This function does not change job.config.device, because it determines the
/// number of logical shards.
void choose_devices(Job& job, const MemberOptions& options) {
  const DeviceConfig& device = job.config.device;
  if (!options.devices || device.type == kReplayDevice) return;
  job.own_device = device;
  job.own_device->type = options.devices->kind;
  job.own_device->indices = options.devices->indices;
}

}  // namespace

Job open_job_message(const JobMessage& message, const MemberOptions& options) {
  Job job{.file = message.file,
          .config = read_job_config(message.config, message.file),
          .network = nullptr};
  refuse_unsupported(job.config, message.file);
  data::DatasetConfig &train = job.config.data.train, &test = job.config.data.test;
  for (std::string* path :
       {&train.path, &train.transform.mean_image, &test.path, &test.transform.mean_image})
    if (!path->empty()) *path = options.data_root.resolve(*path).string();
  job.config.device.threads = options.threads;
  choose_devices(job, options);
  job.network = std::make_unique<net::Network>(message.network, message.network_file,
                                               job.config.shard_batch(), label_form(job.config));
  if (job.config.device.type == kReplayDevice) set_times(job, message.times, "the job's times");
  return job;
}

}  // namespace poseidon::trainer
