#include "comm/asio/in_process_hub.h"

#include "comm/asio/driver.h"

namespace poseidon::comm {

std::shared_ptr<InProcessHub> make_in_process_hub() { return std::make_shared<InProcessHub>(); }

InProcessHub::Entry::Entry(std::shared_ptr<InProcessHub> among, std::string address,
                           std::shared_ptr<asio::io_context> io, Answer answer)
    : among_(std::move(among)), address_(std::move(address)) {
  MutexLock lock(among_->mutex_);
  among_->callees_.emplace(address_,
                           Callee{.entry = this, .io = std::move(io), .answer = std::move(answer)});
}

InProcessHub::Entry::~Entry() {
  MutexLock lock(among_->mutex_);
  const auto found = among_->callees_.find(address_);
  if (found != among_->callees_.end() && found->second.entry == this) among_->callees_.erase(found);
}

bool InProcessHub::call(const std::string& address, const Call& call) {
  // Under the mutex, so that the call is posted before the entry ends.
  MutexLock lock(mutex_);
  const auto found = callees_.find(address);
  if (found == callees_.end()) return false;
  asio::post(*found->second.io, [answer = found->second.answer, call] { answer(call); });
  return true;
}

}  // namespace poseidon::comm
