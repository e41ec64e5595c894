#include "comm/asio/listener.h"

#include <algorithm>
#include <vector>

#include "comm/wire/address.h"
#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;

/// The pause after an error: the system may have no descriptor or memory for another connection.
constexpr std::chrono::milliseconds kPauseAfterError{100};

/// The addresses of a name or number; those that are not loopback come first.
std::vector<tcp::endpoint> endpoints_of(asio::io_context& io, const std::string& address) {
  const HostPort parsed = parse_address(address);
  std::error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(parsed.host, std::to_string(parsed.port), tcp::resolver::passive, error);
  if (error || found.empty())
    throw ConfigError(text("cannot listen at ", address, ": ", error.message()));
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  std::ranges::stable_partition(
      endpoints, [](const tcp::endpoint& endpoint) { return !endpoint.address().is_loopback(); });
  return endpoints;
}

/// Whether the host of `address` is a name that is loopback only on this machine. Other machines
/// can reach this machine by that name. Debian and Ubuntu have such an entry for the machine's name
/// in /etc/hosts.
bool is_loopback_here_only(const std::string& address, const tcp::endpoint& endpoint) {
  std::error_code no_number;
  asio::ip::make_address(parse_address(address).host, no_number);
  return no_number && endpoint.address().is_loopback() && !is_loopback_host(host_of(address));
}

tcp::endpoint anywhere(const tcp::endpoint& like) {
  return {like.address().is_v6() ? asio::ip::address(asio::ip::address_v6::any())
                                 : asio::ip::address(asio::ip::address_v4::any()),
          like.port()};
}

void check_secured(const tcp::endpoint& endpoint, const AsioOptions& options) {
  const bool secured = !options.secret.empty() || options.tls.given();
  if (secured || endpoint.address().is_loopback()) return;
  if (options.insecure)
    return options.log->warning(
        text("--insecure: any process that can reach ", options.listen,
             " can join this job, read its model and data paths, and change its values"));
  throw ConfigError(
      text("cannot listen at ", options.listen,
           " without a secret, because this is not a loopback address: set --secret-file or "
           "--tls-certificate, or --insecure on an isolated network"));
}

}  // namespace

Listener::Listener(asio::io_context& io, const AsioOptions& options)
    : options_(options), acceptor_(io), pause_(io) {
  tcp::endpoint endpoint = endpoints_of(io, options.listen).front();
  if (is_loopback_here_only(options.listen, endpoint)) {
    by_name_ = true;
    options.log->info(text(host_of(options.listen), " resolves to ", endpoint.address().to_string(),
                           " on this machine: listening at all addresses"));
    endpoint = anywhere(endpoint);
  }
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

std::string Listener::reached_at() const {
  if (!by_name_) return address();
  return to_string(
      {.host = parse_address(options_.listen).host, .port = acceptor_.local_endpoint().port()});
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
