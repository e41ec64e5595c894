#include "comm/asio/listener.h"

#include "comm/wire/address.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;

/// When the system has no descriptor or memory for another connection.
constexpr std::chrono::milliseconds kPauseAfterError{100};

tcp::endpoint endpoint_of(asio::io_context& io, const std::string& address) {
  const HostPort parsed = parse_address(address);
  std::error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(parsed.host, std::to_string(parsed.port), tcp::resolver::passive, error);
  if (error || found.empty())
    throw ConfigError(text("cannot listen at ", address, ": ", error.message()));
  return found.begin()->endpoint();
}

void check_secured(const tcp::endpoint& endpoint, const AsioOptions& options) {
  const bool secured = !options.secret.empty() || options.tls.given();
  if (secured || endpoint.address().is_loopback()) return;
  if (options.insecure)
    return options.log->warning(
        text("--insecure: whoever can reach ", options.listen,
             " may join this job, read its model and its data's paths, and change its numbers"));
  throw ConfigError(text("listening at ", options.listen,
                         ", which is not loopback, needs a secret: give --secret-file or "
                         "--tls-certificate, or --insecure if nobody else can reach this network"));
}

}  // namespace

Listener::Listener(asio::io_context& io, const AsioOptions& options)
    : options_(options), acceptor_(io), pause_(io) {
  const tcp::endpoint endpoint = endpoint_of(io, options.listen);
  check_secured(endpoint, options);
  std::error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) throw RunError(text("cannot listen at ", options.listen, ": ", error.message()));
}

std::string Listener::address() const {
  const tcp::endpoint endpoint = acceptor_.local_endpoint();
  return to_string({.host = endpoint.address().to_string(), .port = endpoint.port()});
}

void Listener::start(Accepted accepted) {
  accepted_ = std::move(accepted);
  accept();
}

void Listener::stop() {
  std::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

void Listener::accept() {
  acceptor_.async_accept([this](const std::error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      accepted_(std::move(socket));
      return accept();
    }
    options_.log->warning(text("cannot accept a connection: ", error.message()));
    pause_.expires_after(kPauseAfterError);
    pause_.async_wait([this](const std::error_code& stopped) {
      if (!stopped) accept();
    });
  });
}

}  // namespace poseidon::comm
