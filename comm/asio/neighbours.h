#pragma once

#include <asio.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/asio/local_channel.h"
#include "core/mutex.h"

namespace poseidon::comm {

/// The transports of one process that reach each other without a socket, by the addresses that
/// their nodes advertise. For any thread.
class Neighbours {
 public:
  /// Who calls, in the thread of the one who is called, and whom it means.
  struct Call {
    LocalChannel::Far caller;
    PeerIdentity identity;
    NodeId called;
  };
  using Answer = std::function<void(const Call&)>;

  /// A transport's name among the neighbours, as long as it lives. Calls are answered in the thread
  /// of `io`, all that were made before its end, if that thread does not fail. The first of an
  /// address stays.
  class Entry {
   public:
    Entry(std::shared_ptr<Neighbours> among, std::string address,
          std::shared_ptr<asio::io_context> io, Answer answer);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const std::shared_ptr<Neighbours> among_;
    const std::string address_;
  };

  /// False: nobody of this process has that address.
  bool call(const std::string& address, const Call& call);

 private:
  struct Callee {
    const Entry* entry;
    std::shared_ptr<asio::io_context> io;
    Answer answer;
  };
  Mutex mutex_;
  std::map<std::string, Callee> callees_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::comm
