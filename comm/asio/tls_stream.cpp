#include "comm/asio/tls_stream.h"

#include <algorithm>
#include <asio/ssl.hpp>
#include <initializer_list>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;
namespace ssl = asio::ssl;

/// The most bytes of a TLS record.
constexpr size_t kRecordBytes = 16 * 1024;
/// Limit on the certificates that an unauthenticated peer may send, bytes.
constexpr long kMaxCertificateBytes = 16 * 1024;
/// The fatal alert "protocol version". TlsStream sends it, because OpenSSL sends nothing to a peer
/// that does not speak TLS.
constexpr std::array<unsigned char, 7> kAlert{21, 3, 3, 0, 2, 2, 70};

// ---- Errors with a text for users ----

enum TlsFault { kNoTls = 1, kNoCertificate, kRefusedHere, kExpiredHere, kNothingCommon };

class FaultCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "tls"; }
  std::string message(int fault) const override {
    if (fault == kNoTls) return "the peer does not speak TLS 1.3";
    if (fault == kNoCertificate) return "the peer has no TLS certificate";
    if (fault == kExpiredHere)
      return "the peer reports that this node's TLS certificate has expired: renew it, or correct "
             "the peer's clock";
    if (fault == kNothingCommon)
      return "the two ends have no TLS cipher, group or signature algorithm in common";
    return "the peer rejects this node's TLS certificate: check that the authority in the peer's "
           "--tls-authority has signed it";
  }
};

class VerifyCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "tls certificate"; }
  std::string message(int result) const override {
    return text("this node rejects the peer's TLS certificate: ", reason(result));
  }

 private:
  static std::string reason(int result) {
    switch (result) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
        return "it has expired; renew it, or correct this machine's clock";
      case X509_V_ERR_CERT_NOT_YET_VALID:
        return "it is not valid yet; compare the clocks of both machines";
      case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "another authority of the same name has signed it; expected one signed by the "
               "authority in --tls-authority";
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return "another authority has signed it; expected one signed by the authority in "
               "--tls-authority";
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return "it is self-signed; expected one signed by the authority in --tls-authority";
      default:
        return text(X509_verify_cert_error_string(result),
                    "; expected one signed by the authority in --tls-authority");
    }
  }
};

/// Errors for which only OpenSSL has a text.
class HandshakeCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "tls handshake"; }
  std::string message(int error) const override {
    const char* words = ERR_reason_error_string(static_cast<unsigned long>(error));
    return text("the TLS handshake failed (OpenSSL: ", words == nullptr ? "no reason" : words, ")");
  }
};

std::error_code handshake_fault(int error) {
  static const HandshakeCategory kCategory;
  return {error, kCategory};
}

std::error_code fault(TlsFault which) {
  static const FaultCategory kCategory;
  return {which, kCategory};
}

std::error_code verify_fault(long result) {
  static const VerifyCategory kCategory;
  return {static_cast<int>(result), kCategory};
}

bool is_one_of(int reason, std::initializer_list<int> reasons) {
  return std::ranges::find(reasons, reason) != reasons.end();
}

/// Whether an OpenSSL reason is an alert by which the peer rejects this node's certificate.
bool refuses_certificate(int reason) {
  return is_one_of(
      reason, {SSL_R_TLSV1_ALERT_UNKNOWN_CA, SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
               SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
               SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
               SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED});
}

/// Whether an OpenSSL reason shows that the peer does not use TLS, or uses an older version.
bool shows_no_tls(int reason) {
  return is_one_of(
      reason,
      {SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST,
       SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_UNKNOWN_PROTOCOL, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION,
       SSL_R_UNEXPECTED_MESSAGE, SSL_R_BAD_RECORD_TYPE, SSL_R_PACKET_LENGTH_TOO_LONG,
       SSL_R_ENCRYPTED_LENGTH_TOO_LONG, SSL_R_RECORD_LENGTH_MISMATCH});
}

/// The meaning of an error of a TLS operation. Checks the result of the verification first: if it
/// failed, the first entry of OpenSSL's error list may be an unrelated reason.
std::error_code meaning(const std::error_code& error, SSL* connection) {
  // The frames show where a stream may end, so a TLS close message is not needed.
  if (error == ssl::error::stream_truncated) return asio::error::eof;
  if (error.category() != asio::error::get_ssl_category()) return error;
  if (const long verified = SSL_get_verify_result(connection); verified != X509_V_OK)
    return verify_fault(verified);
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return fault(kNoCertificate);
  if (reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED) return fault(kExpiredHere);
  if (is_one_of(reason, {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, SSL_R_NO_SHARED_CIPHER,
                         SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM}))
    return fault(kNothingCommon);
  if (refuses_certificate(reason)) return fault(kRefusedHere);
  return shows_no_tls(reason) ? fault(kNoTls) : error;
}

// ---- The stream ----

/// Plain bytes pass through the stream's own memory, one record at a time, because OpenSSL may
/// access its buffers again after release().
class TlsStream final : public Stream {
 public:
  TlsStream(tcp::socket socket, ssl::context& context) : stream_(std::move(socket), context) {}

  tcp::socket& socket() override { return stream_.next_layer(); }

  void open(bool initiator, Moved done) override {
    const auto side = initiator ? ssl::stream_base::client : ssl::stream_base::server;
    stream_.async_handshake(side,
                            [this, done = std::move(done)](const std::error_code& error) mutable {
                              if (!error) return done({}, 0);
                              std::error_code why = meaning(error, stream_.native_handle());
                              if (why.category() == asio::error::get_ssl_category())
                                why = handshake_fault(why.value());
                              if (error.category() != asio::error::get_ssl_category())
                                return done(why, 0);
                              std::error_code gone;
                              if (why == fault(kNoTls))
                                socket().write_some(asio::buffer(kAlert), gone);
                              socket().shutdown(tcp::socket::shutdown_send, gone);
                              drain(why, std::move(done));
                            });
  }

  void read(const Room& room, Moved done) override {
    if (ended_)
      return asio::post(socket().get_executor(),
                        [this, done = std::move(done)] { done(ended_, 0); });
    room_ = room;
    const size_t most = std::min(kRecordBytes, room[0].size() + room[1].size());
    stream_.async_read_some(
        asio::buffer(in_.data(), most),
        [this, done = std::move(done)](const std::error_code& error, size_t count) {
          if (error) ended_ = meaning(error, stream_.native_handle());
          deliver(count);
          done(ended_, count);
        });
  }

  void write(Pieces pieces, Moved done) override {
    size_t count = 0;
    for (const auto& piece : pieces) {
      const size_t more = std::min(piece.size(), kRecordBytes - count);
      std::copy_n(piece.begin(), more, out_.begin() + static_cast<std::ptrdiff_t>(count));
      count += more;
    }
    stream_.async_write_some(asio::buffer(out_.data(), count), std::move(done));
  }

  /// A write in progress continues, because a record cannot be withdrawn.
  void release() override { room_ = {}; }

 private:
  /// Reads the rest of the peer's bytes. Otherwise the system would answer them with a reset, which
  /// may overtake the alert that states the reason.
  void drain(const std::error_code& why, Moved done) {
    socket().async_read_some(asio::buffer(in_), [this, why, done = std::move(done)](
                                                    const std::error_code& error, size_t) mutable {
      if (error) return done(why, 0);
      drain(why, std::move(done));
    });
  }

  /// Copies the first `count` bytes of in_ to the room, unless it was released.
  void deliver(size_t count) {
    const auto first = in_.begin();
    const size_t direct = std::min(count, room_[0].size());
    std::copy_n(first, direct, room_[0].begin());
    const size_t rest = std::min(count - direct, room_[1].size());
    std::copy_n(first + static_cast<std::ptrdiff_t>(direct), rest, room_[1].begin());
  }

  ssl::stream<tcp::socket> stream_;
  Room room_;
  std::error_code ended_;  ///< why nothing more can be read; Asio reports it only once
  std::array<std::byte, kRecordBytes> in_, out_;
};

// ---- The context ----

/// OpenSSL reports these faults less clearly, and would wait for the writer of a FIFO.
void check_readable(const char* flag, const std::string& file) {
  try {
    open_file(file);
  } catch (const ConfigError& error) {
    throw ConfigError(text(flag, " ", error.what()));
  }
}

void check_taken(const std::error_code& error, const char* flag, const std::string& file,
                 const char* expected) {
  if (error)
    throw ConfigError(text(flag, " ", file, ": expected ", expected, ": ", error.message()));
}

}  // namespace

class TlsContext::Impl {
 public:
  explicit Impl(const TlsFiles& files) {
    check_complete(files);
    // Otherwise OpenSSL would ask for the password of an encrypted key at the terminal.
    context_.set_password_callback([](size_t, auto) { return std::string(); });
    take_files(files);
    SSL_CTX* const handle = context_.native_handle();
    SSL_CTX_set_num_tickets(handle, 0);  // connections are long, none is resumed
    SSL_CTX_set_session_cache_mode(handle, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(handle, kMaxCertificateBytes);
    context_.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }

  ssl::context& context() { return context_; }

 private:
  static void check_complete(const TlsFiles& files) {
    if (!files.certificate.empty() && !files.key.empty() && !files.authority.empty()) return;
    throw ConfigError(text("TLS requires --tls-certificate, --tls-key and --tls-authority, got \"",
                           files.certificate, "\", \"", files.key, "\" and \"", files.authority,
                           "\""));
  }

  void take_files(const TlsFiles& files) {
    constexpr const char *kCertificate = "--tls-certificate", *kKey = "--tls-key",
                         *kAuthority = "--tls-authority";
    check_readable(kCertificate, files.certificate);
    check_readable(kKey, files.key);
    check_readable(kAuthority, files.authority);
    std::error_code error;
    context_.use_certificate_chain_file(files.certificate, error);
    check_taken(error, kCertificate, files.certificate, "a certificate in PEM form");
    context_.use_private_key_file(files.key, ssl::context::pem, error);
    const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
    if (error && reason == X509_R_KEY_VALUES_MISMATCH)
      throw ConfigError(text(kKey, " ", files.key, ": expected the key of the certificate in ",
                             files.certificate, ", got another key"));
    check_taken(error, kKey, files.key,
                "the certificate's private key in PEM form, without a password");
    context_.load_verify_file(files.authority, error);
    check_taken(error, kAuthority, files.authority, "a certificate in PEM form");
  }

  ssl::context context_{ssl::context::tlsv13};
};

TlsContext::TlsContext(const TlsFiles& files) : impl_(std::make_unique<Impl>(files)) {}
TlsContext::~TlsContext() = default;

std::unique_ptr<Stream> TlsContext::make_stream(tcp::socket socket) {
  return std::make_unique<TlsStream>(std::move(socket), impl_->context());
}

}  // namespace poseidon::comm
