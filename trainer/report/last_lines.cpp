#include "trainer/report/last_lines.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "core/json.h"

namespace poseidon::trainer {

LastLines last_lines(const std::filesystem::path& run) {
  LastLines last;
  std::ifstream lines(run / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;  // incomplete line of a killed process
    const Json step = json.value("step", Json()), type = json.value("type", Json());
    if (!step.is_number_integer()) continue;
    int64_t& of = type == "test" ? last.tested : last.trained;
    of = std::max(of, step.get<int64_t>());
  }
  return last;
}

}  // namespace poseidon::trainer
