#pragma once

#include <string>
#include <vector>

#include "core/log.h"
#include "trainer/job/run_options.h"

/// The names of the classes that a run was trained with, which its folder holds (classes.json).
namespace poseidon::trainer {

/// Those of the run that `options` resumes or takes weights from, in order of their labels; none
/// where no such run is known.
std::vector<std::string> classes_of_run(const RunOptions& options);

/// `label 1 is "red" in the run and "green" now`: the first label that has another meaning in
/// `now`; "" where none has.
std::string class_difference(const std::vector<std::string>& run,
                             const std::vector<std::string>& now);

/// Throws ConfigError if the classes of the training set, `now`, are not those of the run that
/// `options` resumes or takes weights from: its outputs would mean other classes. Weights of which
/// some do not fit (`all_fit` is false) are for other classes on purpose: that is only reported.
void check_classes_of_run(const RunOptions& options, const std::vector<std::string>& now,
                          bool all_fit, Log& log);

}  // namespace poseidon::trainer
