// Checks every #include line against the table of folders in ARCHITECTURE.md: which folder may
// include which others, and where an external package may be included.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "tests/house/source_files.h"

using poseidon::house::read_source;
using poseidon::house::source_files;
using poseidon::house::SourceFile;

namespace {

constexpr std::array kFolders{"core",    "layers",   "net",      "data", "comm",
                              "trainer", "importer", "exporter", "apps", "readers"};

/// Device folders may be included only by each other and by the folders that choose a device.
const std::set<std::string> kDeviceFolders{"core/cpu",      "layers/cpu", "core/replay",
                                           "layers/replay", "core/cuda",  "layers/cuda"};
const std::set<std::string> kDeviceUsers{"core/cpu",  "layers/cpu",  "core/replay", "layers/replay",
                                         "core/cuda", "layers/cuda", "trainer",     "apps"};

/// External packages by prefix of the include, and the folders that may include them.
const std::map<std::string, std::set<std::string>> kPackages{
    {"nlohmann/", {"core"}},
    {"asio.hpp", {"comm/asio"}},
    {"asio/", {"comm/asio"}},
    {"openssl/ssl.h", {"comm/asio"}},
    {"openssl/", {"core"}},
    {"dnnl", {"core/cpu", "layers/cpu"}},
    {"oneapi/", {"core/cpu", "layers/cpu"}},
    {"cuda", {"core/cuda/runtime", "layers/cuda/runtime"}},
    {"cublas", {"layers/cuda/runtime"}},
    {"cudnn", {"layers/cuda/runtime"}},
    {"omp.h", {"core/cpu", "layers/cpu"}},
    {"stb/", {"data"}},
    {"jpeglib.h", {"data"}},
    {"jerror.h", {"data"}},
    {"turbojpeg.h", {"data"}},
    {"zlib.h", {"data"}},
    {"lmdb.h", {"readers"}},
    {"leveldb/", {"readers"}},
    {"hdf5.h", {"readers"}},
    {"CLI/", {"apps"}},
    {"linux/tcp.h", {"comm/asio"}},
    {"netinet/in.h", {"comm/asio"}},
    {"sys/socket.h", {"core", "comm/asio"}},
    {"sys/un.h", {"core"}},
};

/// Headers of the operating system and of the instruction set.
const std::set<std::string> kSystem{
    "unistd.h",        "dlfcn.h",        "fcntl.h",       "sched.h",       "signal.h",
    "poll.h",          "sys/mman.h",     "sys/stat.h",    "sys/types.h",   "sys/ioctl.h",
    "sys/wait.h",      "sys/resource.h", "sys/syscall.h", "sys/prctl.h",   "sys/statvfs.h",
    "sys/file.h",      "pthread.h",      "spawn.h",       "linux/audit.h", "linux/filter.h",
    "linux/seccomp.h", "cpuid.h",        "immintrin.h",   "nmmintrin.h"};

struct Include {
  std::string target;
  bool quoted;
};

std::optional<Include> include_of(const std::string& line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return std::nullopt;
  const size_t open = line.find_first_of("<\"", at);
  const size_t close = line.find_first_of(">\"", open + 1);
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  return Include{line.substr(open + 1, close - open - 1), line[open] == '"'};
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// A row of the table: a folder, and the other folders that it may include.
struct Room {
  std::string name;
  std::set<std::string> may_include;
};

/// The names in backticks in a table cell.
std::set<std::string> names_in(const std::string& cell) {
  std::set<std::string> names;
  size_t open = cell.find('`');
  while (open != std::string::npos) {
    const size_t close = cell.find('`', open + 1);
    names.insert(cell.substr(open + 1, close - open - 1));
    open = cell.find('`', close + 1);
  }
  return names;
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  for (size_t bar = row.find('|'); bar != std::string::npos;) {
    const size_t next = row.find('|', bar + 1);
    if (next != std::string::npos) cells.push_back(row.substr(bar + 1, next - bar - 1));
    bar = next;
  }
  return cells;
}

/// The table rows after "| room |", in order.
std::vector<Room> read_rooms(const std::vector<std::string>& lines) {
  std::vector<Room> rooms;
  auto line = std::ranges::find_if(lines, [](const auto& l) { return l.starts_with("| room |"); });
  for (; line != lines.end() && line->starts_with("|"); ++line) {
    const std::vector<std::string> cells = cells_of(*line);
    const std::set<std::string> name = names_in(cells.at(0));
    if (!name.empty()) rooms.push_back({*name.begin(), names_in(cells.at(2))});
  }
  return rooms;
}

const std::vector<Room>& rooms() {
  static const std::vector<Room> all = read_rooms(read_source("ARCHITECTURE.md").lines);
  return all;
}

/// Whether `folder` is one of `places` or inside one.
bool stands_in(const std::string& folder, const std::set<std::string>& places) {
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    return folder == place || folder.starts_with(place + "/");
  });
}

std::string joined(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

/// The row for a folder; null if there is none.
const Room* room_of(const std::string& folder) {
  const auto room = std::ranges::find_if(
      rooms(), [&](const Room& each) { return stands_in(folder, {each.name}); });
  return room == rooms().end() ? nullptr : &*room;
}

/// The fault of including the project header `target` from `folder`; "" if it is allowed.
std::string own_fault(const std::string& folder, const std::string& target) {
  const Room* room = room_of(folder);
  if (room == nullptr) return folder + " has no row in ARCHITECTURE.md";
  std::set<std::string> allowed = room->may_include;
  allowed.insert(room->name);
  if (!stands_in(folder_of(target), allowed)) return room->name + " may include " + joined(allowed);
  if (stands_in(folder_of(target), kDeviceFolders) && !stands_in(folder, kDeviceUsers))
    return "a device's headers are for " + joined(kDeviceUsers);
  return "";
}

/// The same for a header of the system or of a package.
std::string outside_fault(const std::string& folder, const std::string& target) {
  const bool standard = target.find_first_of("./") == std::string::npos;
  if (standard || kSystem.contains(target)) return "";
  // In reverse order, so that the longer of two prefixes comes first.
  for (const auto& [prefix, places] : std::views::reverse(kPackages))
    if (target.starts_with(prefix))
      return stands_in(folder, places) ? "" : "this package is for " + joined(places);
  return "not in the list of packages (tests/house/include_graph_test.cpp)";
}

/// One line per fault: "net/net.cpp:7: \"data/loader.h\": net may include core, layers, net".
std::vector<std::string> faults_of(const SourceFile& file) {
  std::vector<std::string> faults;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const auto include = include_of(file.lines[i]);
    if (!include) continue;
    const std::string folder = folder_of(file.path);
    const std::string fault = include->quoted ? own_fault(folder, include->target)
                                              : outside_fault(folder, include->target);
    if (!fault.empty())
      faults.push_back(file.path + ":" + std::to_string(i + 1) + ": \"" + include->target +
                       "\": " + fault);
  }
  return faults;
}

}  // namespace

TEST_CASE("the table of folders has no cycles: a row names only rows above it") {
  std::set<std::string> above;
  for (const Room& room : rooms()) {
    for (const std::string& name : room.may_include) {
      INFO(room.name, " names ", name);
      CHECK(std::ranges::any_of(above, [&](const auto& each) { return stands_in(each, {name}); }));
    }
    CHECK(above.insert(room.name).second);
  }
  CHECK(above.size() >= 20);
}

TEST_CASE("every include is allowed by the table of folders") {
  size_t files = 0;
  for (const char* folder : kFolders)
    for (const SourceFile& file : source_files(folder, {".h", ".cpp", ".cu", ".cuh"})) {
      ++files;
      for (const std::string& fault : faults_of(file)) FAIL_CHECK(fault);
    }
  CHECK(files > 50);
}

TEST_CASE("the include test finds each kind of fault") {
  const auto faults = [](const std::string& path, const std::string& line) {
    return faults_of({.path = path, .lines = {line}});
  };
  const std::vector<Room> two =
      read_rooms({"| `x` | before |", "| room | holds | may include |", "| --- | --- | --- |",
                  "| `a/b` | `c` | |", "| `d` | | `a/b`, `e` | `f` |", "", "| `g` | | |"});
  REQUIRE(two.size() == 2);
  CHECK(two[0].name == "a/b");
  CHECK(two[0].may_include.empty());
  CHECK(two[1].may_include == std::set<std::string>{"a/b", "e"});
  CHECK(faults("net/net.cpp", "#include \"layers/layer.h\"").empty());
  CHECK(faults("net/net.cpp", "#include <vector>").empty());
  CHECK(faults("layers/cpu/relu.cpp", "#include <dnnl.hpp>").empty());
  CHECK(faults("net/net.cpp", "  #  include \"data/loader.h\"") ==
        std::vector<std::string>{
            "net/net.cpp:1: \"data/loader.h\": net may include core, layers, net"});
  CHECK(
      faults("comm/plan/plan.cpp", "#include \"comm/exchange/server_shard.h\"") ==
      std::vector<std::string>{"comm/plan/plan.cpp:1: \"comm/exchange/server_shard.h\": comm/plan "
                               "may include comm/plan, comm/wire, core"});
  CHECK(faults("comm/plan.cpp", "#include <vector>").empty());
  CHECK(faults("comm/plan.cpp", "#include \"core/error.h\"") ==
        std::vector<std::string>{
            "comm/plan.cpp:1: \"core/error.h\": comm has no row in ARCHITECTURE.md"});
  CHECK(faults("net/net.cpp", "#include \"layers/cpu/cpu_layer.h\"") ==
        std::vector<std::string>{"net/net.cpp:1: \"layers/cpu/cpu_layer.h\": a device's headers "
                                 "are for apps, core/cpu, core/cuda, core/replay, layers/cpu, "
                                 "layers/cuda, layers/replay, trainer"});
  CHECK(faults("layers/relu.cpp", "#include <dnnl.hpp>") ==
        std::vector<std::string>{
            "layers/relu.cpp:1: \"dnnl.hpp\": this package is for core/cpu, layers/cpu"});
  CHECK(faults("comm/asio/tls_stream.cpp", "#include <openssl/ssl.h>").empty());
  CHECK(faults("comm/wire/handshake.cpp", "#include <asio.hpp>") ==
        std::vector<std::string>{
            "comm/wire/handshake.cpp:1: \"asio.hpp\": this package is for comm/asio"});
  CHECK(
      faults("core/shape.cpp", "#include <boost/asio.hpp>") ==
      std::vector<std::string>{"core/shape.cpp:1: \"boost/asio.hpp\": not in the list of packages "
                               "(tests/house/include_graph_test.cpp)"});
}

TEST_CASE("every header is included once and has no using namespace") {
  for (const char* folder : kFolders)
    for (const SourceFile& file : source_files(folder, {".h", ".cuh"})) {
      CAPTURE(file.path);
      CHECK(std::find(file.lines.begin(), file.lines.end(), "#pragma once") != file.lines.end());
      for (const std::string& line : file.lines) CHECK_FALSE(line.starts_with("using namespace"));
    }
}

// The libstdc++ of the archive crashes in it on processors without RDRAND (scripts/lower-glibc).
TEST_CASE("no source uses std::random_device") {
  for (const char* folder : kFolders)
    for (const SourceFile& file : source_files(folder, {".h", ".cpp"})) {
      CAPTURE(file.path);
      for (const std::string& line : file.lines)
        CHECK(line.find("random_device") == std::string::npos);
    }
}
