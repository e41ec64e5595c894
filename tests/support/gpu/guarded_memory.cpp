#include "tests/support/gpu/guarded_memory.h"

#include <mutex>

#include "core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace poseidon::cuda {

namespace {

/// Makes any later access end the test. Does nothing without the address sanitizer.
void guard([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, bytes);
#endif
}

void unguard([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(data, bytes);
#endif
}

/// The piece that contains all of the memory, or null.
template <class Pieces>
auto piece_with(Pieces& pieces, const void* data, size_t bytes)
    -> decltype(&pieces.begin()->second) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  auto found = pieces.upper_bound(at);
  if (found == pieces.begin()) return nullptr;
  --found;
  return at + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

}  // namespace

/// The staging memory of all GPUs of this process. It has a mutex because several threads use GPUs.
struct GuardedMemory::Staging {
  std::mutex mutex;
  std::map<uintptr_t, Piece> pieces;
};

GuardedMemory::Staging& GuardedMemory::staging() {
  static Staging all;
  return all;
}

class GuardedMemory::Checker final : public MemoryVisitor {
 public:
  Checker(GuardedMemory& memory, const Stamp& stamp) : memory_(memory), stamp_(stamp) {}

  void reads(const void* data, size_t bytes) override { piece(data, bytes, "reads"); }
  void writes(const void* data, size_t bytes) override {
    const Piece* written = piece(data, bytes, "writes");
    if (written != nullptr && written->place == MemoryKind::kStaging)
      memory_.writes_.push_back({data, bytes, stamp_});
  }

 private:
  const Piece* piece(const void* data, size_t bytes, const char* does) const {
    if (bytes == 0) return nullptr;
    const Piece* found = memory_.piece_of(data, bytes);
    if (found == nullptr)
      throw LogicError(text("\"", stamp_.name, "\" in stream ", stamp_.stream, " ", does, " ",
                            bytes, " bytes that are no one piece of the device's memory"));
    return found;
  }

  GuardedMemory& memory_;
  const Stamp& stamp_;
};

class GuardedMemory::StagingCounter final : public MemoryVisitor {
 public:
  explicit StagingCounter(const GuardedMemory& memory) : memory_(memory) {}

  void reads(const void* data, size_t bytes) override { count(data, bytes, access.read); }
  void writes(const void* data, size_t bytes) override { count(data, bytes, access.written); }

  StagingAccess access;

 private:
  void count(const void* data, size_t bytes, int64_t& counter) const {
    const Piece* piece = memory_.piece_of(data, bytes);
    if (piece != nullptr && piece->place == MemoryKind::kStaging)
      counter += static_cast<int64_t>(bytes);
  }

  const GuardedMemory& memory_;
};

class GuardedMemory::Opener final : public MemoryVisitor {
 public:
  void reads(const void* data, size_t bytes) override { unguard(data, bytes); }
  void writes(const void* data, size_t bytes) override { unguard(data, bytes); }
};

/// Staging memory that the operation wrote stays accessible until guard_writes(). Only device
/// memory is guarded here.
class GuardedMemory::Closer final : public MemoryVisitor {
 public:
  explicit Closer(const GuardedMemory& memory) : memory_(memory) {}

  void reads(const void* data, size_t bytes) override { close(data, bytes); }
  void writes(const void* data, size_t bytes) override { close(data, bytes); }

 private:
  void close(const void* data, size_t bytes) const {
    const Piece* piece = memory_.piece_of(data, bytes);
    if (piece != nullptr && piece->place == MemoryKind::kDevice) guard(data, bytes);
  }

  const GuardedMemory& memory_;
};

void GuardedMemory::add(const void* data, size_t bytes, MemoryKind place) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (place == MemoryKind::kStaging) {
    const std::lock_guard lock(staging().mutex);
    staging().pieces[at] = {bytes, place};
    return;
  }
  pieces_[at] = {bytes, place};
  guard(data, bytes);
}

void GuardedMemory::remove(const void* data, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (pieces_.erase(at) == 0) {
    const std::lock_guard lock(staging().mutex);
    staging().pieces.erase(at);
  }
  std::erase_if(writes_, [&](const Write& write) {
    return write.data >= data && write.data < static_cast<const std::byte*>(data) + bytes;
  });
  unguard(data, bytes);
}

const GuardedMemory::Piece* GuardedMemory::piece_of(const void* data, size_t bytes) const {
  if (const Piece* own = piece_with(pieces_, data, bytes)) return own;
  const std::lock_guard lock(staging().mutex);
  return piece_with(staging().pieces, data, bytes);
}

void GuardedMemory::issued(const Operation& operation, const Stamp& stamp) {
  Checker checker(*this, stamp);
  operation.visit(checker);
  guard_writes();
}

GuardedMemory::StagingAccess GuardedMemory::staging_access(const Operation& operation) const {
  StagingCounter counter(*this);
  operation.visit(counter);
  return counter.access;
}

void GuardedMemory::open(const Operation& operation) const {
  Opener opener;
  operation.visit(opener);
}

void GuardedMemory::close(const Operation& operation) const {
  Closer closer(*this);
  operation.visit(closer);
  guard_writes();
}

void GuardedMemory::host_waited_for(const Clock& clock) {
  for (const Write& write : writes_)
    if (write.by.is_before(clock)) unguard(write.data, write.bytes);
  std::erase_if(writes_, [&](const Write& write) { return write.by.is_before(clock); });
  guard_writes();
}

void GuardedMemory::guard_writes() const {
  for (const Write& write : writes_) guard(write.data, write.bytes);
}

}  // namespace poseidon::cuda
