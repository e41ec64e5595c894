#pragma once

#include "core/json.h"

namespace poseidon::apps {

/// Print results of poseidon-train as text for users, on standard output.
void print_check(const Json& check);
void print_devices(const Json& devices);
void print_plan(const Json& plan);
void print_timing(const Json& timing);
void print_features(const Json& features);
void print_scores(const Json& scores);
void print_test(const Json& test);
void print_summary(const Json& summary);

}  // namespace poseidon::apps
