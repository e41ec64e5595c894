#pragma once

#include <memory>

#include "comm/asio/driver.h"
#include "comm/asio/stream.h"

namespace poseidon::comm {

/// The state that the TLS connections of one transport share: certificate, key, and the authority
/// that must have signed the peers' certificates. It uses TLS 1.3 and verifies both ends.
class TlsContext {
 public:
  /// Throws ConfigError for a file that is missing or not PEM, and for a key of another
  /// certificate.
  explicit TlsContext(const TlsFiles& files);
  ~TlsContext();

  /// Called in the I/O thread. The context must outlive the stream.
  std::unique_ptr<Stream> make_stream(asio::ip::tcp::socket socket);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poseidon::comm
