#include "core/file.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "core/config_file.h"
#include "core/json.h"
#include "tests/data/made_files.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using data::made::Folder;

namespace {

void make_socket(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

}  // namespace

TEST_CASE("files: a FIFO, folder or device is refused at once, and the message names it") {
  const Folder folder;
  const std::string fifo = (folder / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const auto& each : {std::pair<std::string, std::string>(fifo, "a FIFO"),
                           {folder.text(), "a folder"},
                           {"/dev/null", "a device"}}) {
    const std::string path = each.first, kind = each.second;
    const std::string expected = text(path, ": expected a file, got ", kind);
    CHECK(error_of<ConfigError>([&] { open_file(path); }) == expected);
    CHECK(error_of<RunError>([&] { InputFile file(path); }) == expected);
    CHECK(error_of<ConfigError>([&] { read_json(path); }) == expected);
    CHECK(error_of<ConfigError>([&] { read_config(path); }) == expected);
    const bool is_folder = std::filesystem::is_directory(path);
    CHECK(error_of<RunError>([&] { AtomicFile file(path); }) ==
          (is_folder ? "" : text(path, ": expected a file to write, got ", kind)));
  }
}

TEST_CASE("files: a socket is refused") {
  const Folder folder;
  const std::string path = (folder / "socket").string();
  make_socket(path);
  CHECK(error_of<ConfigError>([&] { open_file(path); }) ==
        path + ": expected a file, got a socket");
  CHECK(error_of<RunError>([&] { AtomicFile file(path); }) ==
        path + ": expected a file to write, got a socket");
}

TEST_CASE("files: writing never replaces a special file") {
  const Folder folder;
  const std::filesystem::path fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_AS(write_file(fifo, "text"), RunError);
  CHECK(std::filesystem::is_fifo(fifo));
}
