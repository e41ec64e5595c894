#pragma once

#include <asio.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/asio/egress_link.h"
#include "comm/asio/local_channel.h"
#include "core/mutex.h"

namespace poseidon::comm {

/// The transports of one process: they reach each other without a socket, by the addresses that
/// their nodes advertise, and share the link by which frames leave their host. For any thread.
class Neighbours {
 public:
  /// A request to connect, which is answered in the thread of the transport that is called.
  struct Call {
    LocalChannel::Far caller;
    PeerIdentity identity;
    NodeId called;
  };
  using Answer = std::function<void(const Call&)>;

  /// Registers a transport under its address as long as the entry lives. Every call made before the
  /// entry's end is answered in the thread of `io`, unless that thread fails. Of entries with the
  /// same address the first one counts.
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

  /// Makes a call. Returns false when no transport of this process has that address.
  bool call(const std::string& address, const Call& call);

  const std::shared_ptr<EgressLink>& link() const { return link_; }

 private:
  struct Callee {
    const Entry* entry;
    std::shared_ptr<asio::io_context> io;
    Answer answer;
  };
  const std::shared_ptr<EgressLink> link_ = std::make_shared<EgressLink>();
  Mutex mutex_;
  std::map<std::string, Callee> callees_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::comm
