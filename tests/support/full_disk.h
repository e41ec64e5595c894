#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace poseidon {

/// Emulates a full disk: while this object lives, no file of this process can grow beyond `bytes`
/// bytes.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ignored_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, ignored_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  sighandler_t ignored_ = SIG_DFL;
};

}  // namespace poseidon
