#pragma once

#include <string>
#include <vector>

#include "tests/apps/program.h"

namespace poseidon::apps {

/// Runs poseidon-train on a job in the job's folder until it ends.
inline Finished run(const trainer::TinyJob& job, std::vector<std::string> words) {
  words.insert(words.begin(), (job.folder / "job.json").string());
  return Program("poseidon-train", words, job.folder).wait();
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace poseidon::apps
