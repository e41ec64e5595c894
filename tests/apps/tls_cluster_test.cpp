// Daemons that join over TLS, like those on other machines.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"
#include "tests/support/certificates.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::TinyJob;

namespace {

/// `words` with the flags for TLS.
std::vector<std::string> with_tls(std::vector<std::string> words, const comm::TlsFiles& files) {
  words.insert(words.end(), {"--tls-certificate", files.certificate, "--tls-key", files.key,
                             "--tls-authority", files.authority});
  return words;
}

}  // namespace

TEST_CASE("a cluster of daemons trains over TLS") {
  const TinyJob job;
  Certificates certificates;
  certificates.make_authority("ours");
  certificates.make_node("node", "ours");
  const comm::TlsFiles files = certificates.files("node", "ours");
  const std::string address = free_address();
  Program head("poseidon-train",
               with_tls({(job.folder / "job.json").string(), "--json", "--output",
                         (job.folder / "run").string(), "--threads", "1", "--workers", "2",
                         "--servers", "1", "--external", "--listen", address},
                        files),
               job.folder);
  REQUIRE(eventually([&] { return head.err().find("waiting for") != std::string::npos; }));
  std::vector<Program> members;
  for (const char* name : {"poseidon-server", "poseidon-worker", "poseidon-worker"}) {
    const std::filesystem::path folder = job.folder / ("member" + std::to_string(members.size()));
    std::filesystem::create_directory(folder);
    const std::vector<std::string> words{"--coordinator", address, "--once"};
    members.emplace_back(name, with_tls(words, files), folder);
  }
  const Finished finished = head.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  for (Program& member : members) {
    if (finished.code != 0) member.send(SIGTERM);
    const Finished ended = member.wait();
    CAPTURE(ended.err);
    CHECK(ended.code == 0);
  }
  REQUIRE(finished.code == 0);
  CHECK(Json::parse(finished.out)["workers"] == 2);
}

TEST_CASE("TLS flags that contradict others or name no file are refused at the start") {
  const TinyJob job;
  const std::string config = (job.folder / "job.json").string();
  const auto refusal = [&](const std::string& name, const std::vector<std::string>& words) {
    const Finished finished = Program(name, words, job.folder).wait();
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(refusal("poseidon-train", {config, "--tls-key", "x"}).find(" require --external; ") !=
        std::string::npos);
  CHECK(refusal("poseidon-worker", {"--coordinator", "127.0.0.1:1", "--tls-key", "x"})
            .find("TLS requires --tls-certificate, --tls-key and --tls-authority") !=
        std::string::npos);
}

TEST_CASE("security: a node that listens at all addresses requires --advertise") {
  const TinyJob job;
  for (const std::string listen : {"0.0.0.0:0", "[::]:0"}) {
    const Finished finished =
        Program("poseidon-worker", {"--coordinator", "127.0.0.1:1", "--listen", listen}, job.folder)
            .wait();
    CHECK(finished.code == 2);
    CHECK(finished.err.find("listening at " + listen + " requires --advertise HOST:PORT") !=
          std::string::npos);
  }
}
