#pragma once

#include <CLI/CLI.hpp>

#include "comm/asio/driver.h"

namespace poseidon::apps {

/// The flags by which a program is given its TLS files; the transport checks them.
/// `group` is theirs in --help.
inline void add_tls_options(CLI::App& app, comm::TlsFiles& files, const char* group) {
  app.add_option("--tls-certificate", files.certificate,
                 "PEM file: this node's certificate; connections then go by TLS 1.3")
      ->group(group);
  app.add_option("--tls-key", files.key, "PEM file: the certificate's private key")->group(group);
  app.add_option("--tls-authority", files.authority,
                 "PEM file: who must have signed the peers' certificates")
      ->group(group);
}

}  // namespace poseidon::apps
