#include "readers/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace poseidon::readers {

namespace fs = std::filesystem;

namespace {

/// Limit of private memory, in bytes. There is none with sanitizers, because they map terabytes of
/// memory that they hardly use.
#if defined(POSEIDON_SANITIZED)
constexpr rlim_t kMemoryLimit = RLIM_INFINITY;
#else
constexpr rlim_t kMemoryLimit = kMaxMemoryBytes;
#endif

void limit(__rlimit_resource resource, rlim_t most) {
  const rlimit both{most, most};
  if (::setrlimit(resource, &both) != 0)
    throw RunError(text("cannot set a resource limit: ", std::strerror(errno)));
}

uint64_t bytes_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const uintmax_t bytes = fs::file_size(path, ignored);
    return ignored ? 0 : bytes;
  }
  uint64_t sum = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored))
    if (entry.is_regular_file(ignored)) sum += entry.file_size(ignored);
  return sum;
}

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

/// System calls that no library needs to read a file. They fail with EPERM. io_uring would open and
/// write files without the calls that this filter refuses.
constexpr std::array kRefusedCalls{
    // Other processes and programs
    SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_unshare, SYS_setns, SYS_ptrace,
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_open, SYS_pidfd_getfd,
    // Signals
    SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal,
    // Files
    SYS_creat, SYS_openat2, SYS_open_by_handle_at, SYS_truncate, SYS_ftruncate, SYS_unlink,
    SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_mkdir, SYS_mkdirat, SYS_rmdir,
    SYS_mknod, SYS_mknodat, SYS_link, SYS_linkat, SYS_symlink, SYS_symlinkat, SYS_chmod, SYS_fchmod,
    SYS_fchmodat, SYS_chown, SYS_fchown, SYS_lchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_mount,
    // The network and the kernel
    SYS_socket, SYS_connect, SYS_bind, SYS_io_uring_setup, SYS_bpf, SYS_keyctl};

/// Continues with the next rule if the BPF comparison `test` of the loaded value with `value` is
/// true. Otherwise skips `skipped` rules.
sock_filter only_if(uint16_t test, uint32_t value, uint8_t skipped) {
  return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | BPF_K | test), value, 0, skipped);
}
/// Skips the next rule if the comparison is true.
sock_filter unless(uint16_t test, uint32_t value) {
  return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | BPF_K | test), value, 1, 0);
}
sock_filter then_return(uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}

using Rules = std::vector<sock_filter>;

void refuse(long call, Rules& rules) {
  rules.push_back(only_if(BPF_JEQ, static_cast<uint32_t>(call), 1));
  rules.push_back(then_return(kRefuse));
}

/// Refuses `call` unless `comparison`, of the low 32 bits of the argument with this index, skips
/// the next rule.
void refuse_by_argument(long call, size_t index, sock_filter comparison, Rules& rules) {
  rules.push_back(only_if(BPF_JEQ, static_cast<uint32_t>(call), 4));
  rules.push_back(load(offsetof(seccomp_data, args) + index * sizeof(uint64_t)));
  rules.push_back(comparison);
  rules.push_back(then_return(kRefuse));
  rules.push_back(load(offsetof(seccomp_data, nr)));
}

/// Refuses `call` if it opens a file for more than reading. `flags` is the index of the argument
/// with the open flags.
void refuse_writing(long call, size_t flags, Rules& rules) {
  refuse_by_argument(call, flags, only_if(BPF_JSET, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 1),
                     rules);
}

/// Allows this process to start threads, but no process. The C library starts threads with clone()
/// if clone3() is unknown. A filter cannot read the flags of clone3().
void refuse_processes(Rules& rules) {
  refuse_by_argument(SYS_clone, 0, unless(BPF_JSET, CLONE_THREAD), rules);
  rules.push_back(only_if(BPF_JEQ, SYS_clone3, 1));
  rules.push_back(then_return(kUnknown));
}

/// Allows this process to signal its own threads, as abort() does, and to read its own limits.
void refuse_other_processes(Rules& rules) {
  refuse_by_argument(SYS_tgkill, 0, unless(BPF_JEQ, static_cast<uint32_t>(::getpid())), rules);
  refuse_by_argument(SYS_prlimit64, 0, unless(BPF_JEQ, 0), rules);  // 0: the calling process
}

/// Calls prctl(). Returns false if the kernel lacks this operation. Throws RunError if the
/// operation fails.
bool control(int operation, unsigned long first, const void* second = nullptr) {
  if (::prctl(operation, first, reinterpret_cast<unsigned long>(second), 0UL, 0UL) == 0)
    return true;
  if (errno == EINVAL) return false;
  throw RunError(text("cannot restrict the reader: prctl ", operation, ": ", std::strerror(errno)));
}

/// Installs a seccomp filter that refuses kRefusedCalls, opening files for writing, starting
/// processes, and signals to other processes. On a kernel without seccomp filters, does nothing:
/// then only the limits of enter_sandbox() apply.
void refuse_calls() {
  constexpr uint32_t kOtherNumbers = 0x40000000;  // first number of the same calls in the x32 ABI
  Rules rules{load(offsetof(seccomp_data, arch)),
              BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
              then_return(kRefuse),
              load(offsetof(seccomp_data, nr)),
              only_if(BPF_JGE, kOtherNumbers, 1),
              then_return(kRefuse)};
  for (const long call : kRefusedCalls) refuse(call, rules);
  refuse_writing(SYS_open, 1, rules);
  refuse_writing(SYS_openat, 2, rules);
  refuse_processes(rules);
  refuse_other_processes(rules);
  rules.push_back(then_return(SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace

void enter_sandbox(const fs::path& path) {
  control(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CPU, 60 + bytes_of(path) / (uint64_t{1} << 20));
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 256);
  limit(RLIMIT_DATA, kMemoryLimit);
  if (control(PR_SET_NO_NEW_PRIVS, 1)) refuse_calls();
}

}  // namespace poseidon::readers
