// docs/networks.md must have a row for each network of configs/networks, with the right numbers.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "net/network.h"
#include "tests/support/folders.h"

namespace poseidon::net {
namespace {

namespace fs = std::filesystem;

const fs::path kTableSource = test::source_folder();

/// "60,965,224".
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

/// "15,470.3".
std::string in_millions(int64_t number) {
  const int64_t tenths = std::llround(static_cast<double>(number) / 1e5);
  return grouped(tenths / 10) + "." + std::to_string(tenths % 10);
}

/// The cells that follow from the network file.
std::string row_of(const fs::path& file) {
  int64_t multiply_adds = 0;
  const Network one(file, 1);
  for (const Node& node : one.nodes()) multiply_adds += node.definition->multiply_adds();
  const auto bytes = Network(file, 32).summary()["activation_bytes"].get<int64_t>();
  return "| " + one.name() + " | " + grouped(one.parameter_count()) + " | " +
         in_millions(multiply_adds) + " | " + in_millions(bytes) + " | ";
}

std::vector<std::string> rows_of_document() {
  std::ifstream document(kTableSource / "docs/networks.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(document, line);)
    if (line.starts_with("| ")) rows.push_back(line);
  return rows;
}

/// The jobs that the last cell names: "`configs/lenet-mnist.json`", or several, with commas.
std::vector<fs::path> jobs_of(const std::string& row) {
  std::vector<fs::path> jobs;
  for (size_t start = row.find('`', row.rfind("| `")); start != std::string::npos;) {
    const size_t end = row.find('`', start + 1);
    jobs.push_back(kTableSource / row.substr(start + 1, end - start - 1));
    start = row.find('`', end + 1);
  }
  return jobs;
}

}  // namespace

TEST_CASE("docs/networks.md lists the figures and the jobs of each network") {
  const std::vector<std::string> rows = rows_of_document();
  for (const auto& entry : fs::directory_iterator(kTableSource / "configs/networks")) {
    const std::string expected = row_of(entry.path());
    CAPTURE(expected);
    const auto row = std::ranges::find_if(
        rows, [&](const std::string& line) { return line.starts_with(expected); });
    CHECK(row != rows.end());
    if (row == rows.end()) continue;
    for (const fs::path& job : jobs_of(*row)) {
      CAPTURE(job.string());
      REQUIRE(fs::exists(job));
      const fs::path network = job.parent_path() / read_json(job)["network"].get<std::string>();
      CHECK(fs::equivalent(network, entry.path()));
    }
  }
}

TEST_CASE("the -plain networks equal the full networks without the auxiliary heads") {
  for (const std::string name : {"googlenet", "googlenet-torchvision", "inception_v3"}) {
    const fs::path folder = kTableSource / "configs/networks";
    const Network whole(folder / (name + ".json"), 2);
    const Network plain(folder / (name + "-plain.json"), 2);
    REQUIRE(plain.nodes().size() < whole.nodes().size());
    for (size_t i = 0; i < plain.nodes().size(); ++i) {
      CHECK(plain.nodes()[i].definition->name == whole.nodes()[i].definition->name);
      CHECK(plain.nodes()[i].output == whole.nodes()[i].output);
      CHECK(plain.nodes()[i].inputs == whole.nodes()[i].inputs);
    }
    for (size_t i = plain.nodes().size(); i < whole.nodes().size(); ++i)
      CHECK(whole.nodes()[i].definition->name.starts_with("head"));
  }
}

}  // namespace poseidon::net
