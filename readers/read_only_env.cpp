#include "readers/read_only_env.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace poseidon::readers {

namespace {

using leveldb::Slice;
using leveldb::Status;

using Contents = std::shared_ptr<std::string>;

class MemoryWriter final : public leveldb::WritableFile {
 public:
  explicit MemoryWriter(Contents contents) : contents_(std::move(contents)) {}
  Status Append(const Slice& data) override {
    contents_->append(data.data(), data.size());
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  Contents contents_;
};

class MemoryReader final : public leveldb::SequentialFile, public leveldb::RandomAccessFile {
 public:
  explicit MemoryReader(Contents contents) : contents_(std::move(contents)) {}
  Status Read(size_t count, Slice* result, char* scratch) override {
    const Status status = Read(index_, count, result, scratch);
    index_ += result->size();
    return status;
  }
  Status Skip(uint64_t count) override {
    index_ = std::min<uint64_t>(contents_->size(), index_ + count);
    return Status::OK();
  }
  Status Read(uint64_t offset, size_t count, Slice* result, char*) const override {
    const size_t begin = std::min<uint64_t>(offset, contents_->size());
    *result = Slice(contents_->data() + begin, std::min(count, contents_->size() - begin));
    return Status::OK();
  }

 private:
  Contents contents_;
  uint64_t index_ = 0;
};

class NoLock final : public leveldb::FileLock {};

class NoLog final : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class ReadOnlyEnv final : public leveldb::EnvWrapper {
 public:
  ReadOnlyEnv() : leveldb::EnvWrapper(leveldb::Env::Default()) {}

  Status NewSequentialFile(const std::string& name, leveldb::SequentialFile** file) override {
    const Contents contents = written(name);
    if (!contents) return target()->NewSequentialFile(name, file);
    *file = new MemoryReader(contents);
    return Status::OK();
  }
  Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) override {
    const Contents contents = written(name);
    if (!contents) return target()->NewRandomAccessFile(name, file);
    *file = new MemoryReader(contents);
    return Status::OK();
  }
  Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    files_[name] = std::make_shared<std::string>();
    *file = new MemoryWriter(files_[name]);
    return Status::OK();
  }
  Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override {
    return NewWritableFile(name, file);
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    const auto found = files_.find(from);
    if (found == files_.end()) return Status::OK();
    files_[to] = found->second;
    files_.erase(found);
    return Status::OK();
  }
  bool FileExists(const std::string& name) override {
    return written(name) || target()->FileExists(name);
  }
  Status GetFileSize(const std::string& name, uint64_t* size) override {
    const Contents contents = written(name);
    if (!contents) return target()->GetFileSize(name, size);
    *size = contents->size();
    return Status::OK();
  }
  Status RemoveFile(const std::string& name) override {
    files_.erase(name);
    return Status::OK();
  }
  Status CreateDir(const std::string&) override { return Status::OK(); }
  Status RemoveDir(const std::string&) override { return Status::OK(); }
  Status LockFile(const std::string&, leveldb::FileLock** lock) override {
    *lock = new NoLock;
    return Status::OK();
  }
  Status UnlockFile(leveldb::FileLock* lock) override {
    delete lock;
    return Status::OK();
  }
  Status NewLogger(const std::string&, leveldb::Logger** logger) override {
    *logger = new NoLog;
    return Status::OK();
  }
  void Schedule(void (*)(void*), void*) override {}
  void StartThread(void (*)(void*), void*) override {}

 private:
  /// Returns the contents of a file that was written through this environment; null for other
  /// files.
  Contents written(const std::string& name) const {
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : found->second;
  }

  std::map<std::string, Contents> files_;
};

}  // namespace

std::unique_ptr<leveldb::Env> make_read_only_env() { return std::make_unique<ReadOnlyEnv>(); }

}  // namespace poseidon::readers
