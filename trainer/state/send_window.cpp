#include "trainer/state/send_window.h"

#include "trainer/step/job_lost.h"

namespace poseidon::trainer {

void SendWindow::State::release(size_t bytes) {
  {
    MutexLock lock(mutex);
    on_the_way -= bytes;
  }
  changed.notify_all();
}

std::shared_ptr<float[]> SendWindow::lend(size_t count) {
  const size_t bytes = count * sizeof(float);
  {
    MutexLock lock(state_->mutex);
    while (!state_->ended && state_->on_the_way > 0 && state_->on_the_way + bytes > most_)
      state_->changed.wait(state_->mutex);
    if (state_->ended) throw JobFailed("the job has failed");
    state_->on_the_way += bytes;
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

void SendWindow::begin_anew() {
  MutexLock lock(state_->mutex);
  state_->ended = false;
  state_->unwritten = -1;
}

}  // namespace poseidon::trainer
