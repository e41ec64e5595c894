#include "comm/asio/dialler.h"

#include <algorithm>
#include <cctype>

#include "comm/wire/address.h"
#include "comm/wire/reachability.h"
#include "core/error.h"

namespace poseidon::comm {

using asio::ip::tcp;

std::string text_of(const std::error_code& error) {
  if (error == asio::error::connection_refused) return kCallRefused;
  std::string out = error.message();
  if (!out.empty()) out[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(out[0])));
  return out;
}

void Dialler::dial(const std::string& address, Done done) {
  HostPort to;
  try {
    to = parse_address(address);
  } catch (const ConfigError& error) {
    return done(error.what());
  }
  std::error_code no_number;
  const auto number = asio::ip::make_address(to.host, no_number);
  if (!no_number)
    return connect(Endpoints::create(tcp::endpoint(number, to.port), to.host, ""), std::move(done));
  resolver_.async_resolve(
      to.host, std::to_string(to.port),
      [this, to, done = std::move(done)](const std::error_code& error, const Endpoints& endpoints) {
        if (error) return done(text(kUnknownName, ": ", text_of(error)));
        if (cancelled_) return;
        note_loopback(to.host, endpoints);
        connect(endpoints, done);
      });
}

void Dialler::note_loopback(const std::string& name, const Endpoints& endpoints) {
  if (endpoints.empty() || is_loopback_host(name)) return;
  const auto is_loopback = [](const auto& entry) {
    return entry.endpoint().address().is_loopback();
  };
  if (std::ranges::all_of(endpoints, is_loopback))
    remark_ = text(kLoopbackName, " (", endpoints.begin()->endpoint().address().to_string(), "): ");
}

void Dialler::cancel() {
  cancelled_ = true;
  resolver_.cancel();
}

void Dialler::connect(const Endpoints& endpoints, Done done) {
  asio::async_connect(socket_, endpoints,
                      [done = std::move(done)](const std::error_code& error, const tcp::endpoint&) {
                        done(error ? text_of(error) : "");
                      });
}

}  // namespace poseidon::comm
