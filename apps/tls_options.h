#pragma once

#include <CLI/CLI.hpp>

#include "comm/asio/driver.h"

namespace poseidon::apps {

/// Adds the flags for a program's TLS files. The transport checks the files. `group` is their group
/// in --help.
inline void add_tls_options(CLI::App& app, comm::TlsFiles& files, const char* group) {
  app.add_option("--tls-certificate", files.certificate,
                 "PEM: this node's certificate; enables TLS 1.3")
      ->group(group)
      ->type_name("FILE");
  app.add_option("--tls-key", files.key, "PEM: private key of the certificate")
      ->group(group)
      ->type_name("FILE");
  app.add_option("--tls-authority", files.authority,
                 "PEM: certificate authority of the peers' certificates")
      ->group(group)
      ->type_name("FILE");
}

}  // namespace poseidon::apps
