#include "core/cuda/cuda_device.h"

#include <algorithm>

namespace poseidon::cuda {

CudaDevice::CudaDevice(std::unique_ptr<Driver> driver, const Settings& settings)
    : driver_(std::move(driver)),
      settings_(settings),
      compute_(driver_->make_stream(Urgency::kUsual)),
      uploads_(*driver_, compute_) {}

CudaDevice::~CudaDevice() { driver_->record(compute_)->wait(); }

void CudaDevice::copy(const void* from, void* to, size_t bytes) {
  if (bytes > 0 && from != to) driver_->copy(compute_, from, to, bytes);
}

void CudaDevice::read(std::span<const std::byte> from, std::span<std::byte> host) {
  constexpr size_t kPieceBytes = size_t{4} << 20;
  if (landing_.bytes() == 0)
    landing_ = driver_->allocate(kPieceBytes, Place::kStaging, "values on their way");
  for (size_t done = 0; done < from.size();) {
    const size_t bytes = std::min(kPieceBytes, from.size() - done);
    copy(from.data() + done, landing_.data(), bytes);
    driver_->record(compute_)->wait();
    std::copy_n(static_cast<const std::byte*>(landing_.data()), bytes, host.data() + done);
    done += bytes;
  }
}

void CudaDevice::write(std::span<const std::byte> host, std::span<std::byte> to) {
  uploads_.write(host, to.data());
}

}  // namespace poseidon::cuda
