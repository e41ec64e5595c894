#include "comm/asio/dialler.h"

#include <cctype>

#include "comm/wire/address.h"
#include "core/error.h"

namespace poseidon::comm {

using asio::ip::tcp;

std::string text_of(const std::error_code& error) {
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
      [this, done = std::move(done)](const std::error_code& error, const Endpoints& endpoints) {
        if (error) return done("its name cannot be resolved: " + text_of(error));
        if (!cancelled_) connect(endpoints, done);
      });
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
