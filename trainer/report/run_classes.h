#pragma once

#include <string>
#include <vector>

#include "core/log.h"
#include "trainer/job/run_options.h"

/// The class names with which a run was trained, from classes.json in its folder.
namespace poseidon::trainer {

/// Class names of the run that `options` resumes or whose weights it uses, in the order of their
/// labels. Empty if there is no such run, or if the run has no class names.
std::vector<std::string> classes_of_run(const RunOptions& options);

/// Describes the first label with different names: `label 1 is "red" in the run and "green" now`;
/// "" if there is no such label.
std::string class_difference(const std::vector<std::string>& run,
                             const std::vector<std::string>& now);

/// Compares the classes of the training set, `now`, with the classes of an earlier run. `options`
/// resumes this run, or uses its weights. Throws ConfigError if the classes differ, because the
/// outputs would have other meanings. Exception: if some weights of another run do not fit
/// (`all_fit` is false), only logs the difference, which counts as intentional. Does nothing if the
/// run or the training set has no class names.
void check_classes_of_run(const RunOptions& options, const std::vector<std::string>& now,
                          bool all_fit, Log& log);

}  // namespace poseidon::trainer
