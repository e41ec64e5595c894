// Workers and servers started by a job launcher.

#include <doctest/doctest.h>

#include <cstdlib>

#include "core/json.h"
#include "tests/apps/cluster.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

/// The path of the program in PATH; "" if it is not there.
std::string found_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string file = folder + "/" + program; access(file.c_str(), X_OK) == 0)
      return file;
  return "";
}

std::string binary(const char* name) { return test::program_folder() + "/" + name; }

}  // namespace

TEST_CASE("under mpirun the launcher's processes join, and end with 0") {
  const std::string mpirun = found_in_path("mpirun");
  if (mpirun.empty()) {
    MESSAGE("skipped: there is no mpirun here");
    return;
  }
  Cluster cluster;
  Program train = cluster.train("run");
  const std::string secret = (cluster.job.folder / "secret").string();
  const std::vector<std::string> joining{"--coordinator", cluster.address, "--secret-file", secret,
                                         "--once"};
  std::vector<std::string> words{"--oversubscribe",         "-n",        "2",
                                 binary("poseidon-worker"), "--threads", "1"};
  words.insert(words.end(), joining.begin(), joining.end());
  words.insert(words.end(), {":", "-n", "1", binary("poseidon-server")});
  words.insert(words.end(), joining.begin(), joining.end());
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const Finished launcher = Program(mpirun, words, cluster.job.folder).wait();
  CAPTURE(launcher.err);
  CHECK(launcher.code == 0);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(Json::parse(finished.out)["workers"] == 2);
}
