#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "comm/asio/driver.h"

namespace poseidon {

/// A temporary folder of keys and certificates, made with the openssl program. The destructor
/// removes the folder.
class Certificates {
 public:
  Certificates() {
    std::string name = (std::filesystem::temp_directory_path() / "poseidon-tls-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// Makes NAME.pem and NAME.key of a certificate authority.
  void make_authority(const std::string& name) {
    openssl("req -x509 " + new_key(name) + " -days 30 -out " + file(name + ".pem"));
  }
  /// Makes NAME.pem, signed by `authority`, and NAME.key.
  void make_node(const std::string& name, const std::string& authority) {
    make_node(name, authority, "-days 30");
  }
  /// Makes a certificate that is valid between two times, written like "20200101000000Z".
  void make_node(const std::string& name, const std::string& authority, const std::string& from,
                 const std::string& to) {
    std::ofstream(file("index.txt")).flush();
    std::ofstream(file("ca.cnf")) << "[ca]\ndefault_ca=d\n[d]\nnew_certs_dir=" << folder_.string()
                                  << "\ndatabase=" << file("index.txt")
                                  << "\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\n"
                                     "commonName=supplied\n";
    const std::string request = file(name + ".csr"), signer = file(authority);
    openssl("req " + new_key(name) + " -out " + request);
    openssl("ca -batch -config " + file("ca.cnf") + " -cert " + signer + ".pem -keyfile " + signer +
            ".key -startdate " + from + " -enddate " + to + " -in " + request + " -out " +
            file(name + ".pem") + " > /dev/null");
  }
  comm::TlsFiles files(const std::string& node, const std::string& authority) const {
    return {.certificate = file(node + ".pem"),
            .key = file(node + ".key"),
            .authority = file(authority + ".pem")};
  }

 private:
  void make_node(const std::string& name, const std::string& authority, const std::string& time) {
    const std::string request = file(name + ".csr"), signer = file(authority);
    openssl("req " + new_key(name) + " -out " + request);
    openssl("x509 -req -in " + request + " -CA " + signer + ".pem -CAkey " + signer +
            ".key -CAcreateserial " + time + " -out " + file(name + ".pem"));
  }
  std::string new_key(const std::string& name) const {
    return "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name + " -keyout " +
           file(name + ".key");
  }
  void openssl(const std::string& words) const {
    const std::string command = "openssl " + words + " 2>> " + file("openssl.log");
    if (std::system(command.c_str()) != 0) throw std::runtime_error("this failed: " + command);
  }

  std::filesystem::path folder_;
};

}  // namespace poseidon
