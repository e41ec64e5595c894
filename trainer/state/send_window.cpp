#include "trainer/state/send_window.h"

#include "trainer/step/job_failed.h"

namespace poseidon::trainer {

void SendWindow::State::release(size_t bytes) {
  {
    MutexLock lock(mutex);
    in_flight -= bytes;
  }
  changed.notify_all();
}

std::shared_ptr<float[]> SendWindow::allocate(size_t count) {
  const size_t bytes = count * sizeof(float);
  {
    MutexLock lock(state_->mutex);
    while (!state_->ended && state_->in_flight > 0 && state_->in_flight + bytes > most_)
      state_->changed.wait(state_->mutex);
    if (state_->ended) throw JobFailed("the job has failed");
    state_->in_flight += bytes;
  }
  const auto give_back = [state = state_, bytes](float* values) {
    delete[] values;
    state->release(bytes);
  };
  try {
    return {new float[count], give_back};
  } catch (...) {
    state_->release(bytes);
    throw;
  }
}

void SendWindow::begin(int64_t step) {
  wait_until_written();
  MutexLock lock(state_->mutex);
  state_->unwritten = step;
}

void SendWindow::written(int64_t step) {
  {
    MutexLock lock(state_->mutex);
    if (state_->unwritten == step) state_->unwritten = -1;
  }
  state_->changed.notify_all();
}

void SendWindow::wait_until_written() {
  MutexLock lock(state_->mutex);
  while (!state_->ended && state_->unwritten >= 0) state_->changed.wait(state_->mutex);
  if (state_->ended) throw JobFailed("the job has failed");
}

void SendWindow::end() {
  {
    MutexLock lock(state_->mutex);
    state_->ended = true;
  }
  state_->changed.notify_all();
}

void SendWindow::reopen() {
  MutexLock lock(state_->mutex);
  state_->ended = false;
  state_->unwritten = -1;
}

}  // namespace poseidon::trainer
