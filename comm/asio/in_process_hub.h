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

/// The in-process transport: the transports of one process connect without a socket, by the
/// addresses that their nodes advertise. They share the link on which frames leave their host. Any
/// thread may call the functions.
class InProcessHub {
 public:
  /// A request to connect. The thread of the called transport answers it.
  struct Call {
    LocalChannel::EndHandle caller;
    PeerIdentity identity;
    NodeId called;
  };
  using Answer = std::function<void(const Call&)>;

  /// Registers a transport under its address, until the entry is destroyed. The thread of `io`
  /// answers every call made before the entry ends, unless that thread fails. If several entries
  /// have the same address, calls go to the first one.
  class Entry {
   public:
    Entry(std::shared_ptr<InProcessHub> among, std::string address,
          std::shared_ptr<asio::io_context> io, Answer answer);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const std::shared_ptr<InProcessHub> among_;
    const std::string address_;
  };

  /// Makes a call. Returns false if no transport of this process has that address.
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
