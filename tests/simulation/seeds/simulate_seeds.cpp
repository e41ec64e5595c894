// Runs simulated jobs, one for each seed, and reports the seeds that fail.
//   simulate_seeds [--first N] [--count N]   exit 1 if a seed fails; prints the command to repeat
//   simulate_seeds --reconfigure ...             jobs that continue after node failures
//   simulate_seeds --join ...                the same, with nodes that join while the jobs run
//   simulate_seeds --late ...                jobs with staleness that continue after node failures
//   simulate_seeds --setup ...               jobs of nodes that cannot reach each other
//   simulate_seeds --expect-failure ...      exit 1 if no seed fails: for mutated code
//   simulate_seeds --first N --count 1 --verbose   prints details of one seed
//   simulate_seeds --first N --count 1 --events    prints each event, with its simulated time

#include <cstdlib>
#include <iostream>
#include <string>

#include "comm/membership/states.h"
#include "tests/simulation/seeds/reconfiguration.h"
#include "tests/simulation/seeds/scenario.h"
#include "tests/simulation/seeds/setup.h"

using namespace poseidon::comm;

namespace {

struct Arguments {
  uint64_t first = 1, count = 100;
  bool expect_failure = false, verbose = false, events = false, reconfigures = false, joins = false,
       late = false, setup = false;
};

Arguments parse(int count, char** words) {
  Arguments out;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--expect-failure")
      out.expect_failure = true;
    else if (word == "--verbose")
      out.verbose = true;
    else if (word == "--events")
      out.events = out.verbose = true;
    else if (word == "--reconfigure")
      out.reconfigures = true;
    else if (word == "--join")
      out.reconfigures = out.joins = true;
    else if (word == "--late")
      out.reconfigures = out.late = true;
    else if (word == "--setup")
      out.setup = true;
    else if (i + 1 < count && word == "--first")
      out.first = std::strtoull(words[++i], nullptr, 10);
    else if (i + 1 < count && word == "--count")
      out.count = std::strtoull(words[++i], nullptr, 10);
    else
      throw std::invalid_argument("unknown argument " + word);
  }
  return out;
}

/// Runs the job of one seed. Returns its first fault; "" if there is none.
std::string run(uint64_t seed, const Arguments& arguments) {
  const bool reconfigures = arguments.reconfigures, verbose = arguments.verbose;
  std::string about = "seed " + std::to_string(seed), fault;
  try {
    // The scenario runs the job once without faults, to choose the events of its faults.
    SimulatedJobOptions options = arguments.setup   ? setup_scenario(seed)
                                  : arguments.joins ? joining_scenario(seed)
                                  : arguments.late  ? late_scenario(seed)
                                  : reconfigures    ? reconfiguration_scenario(seed)
                                                    : scenario(seed);
    about = description(options);
    if (verbose) std::cout << about << std::endl;
    if (arguments.events)
      options.on_event = [](const std::string& line) { std::cout << line << "\n"; };
    const SimulatedJobResult result = run_job(options);
    fault = arguments.setup ? fault_in_setup(options, result)
            : reconfigures  ? fault_in_reconfiguration(options, result)
                            : fault_in(options, result);
    if (verbose) {
      for (const auto& [state, since] : result.states)
        std::cout << std::chrono::duration<double, std::milli>(since).count()
                  << " ms: the coordinator enters "
                  << (state == CoordinatorState::kEnded
                          ? "its end"
                          : std::string(kCoordinatorStates[static_cast<size_t>(state)].state))
                  << "\n";
      for (const NodeFailure& failure : result.reconfigurations)
        std::cout << "another view: " << failure.message() << "\n";
      for (const auto& [rank, step] : result.steps)
        std::cout << "worker " << rank << " has done " << step << " steps\n";
      std::cout << result.frames << " frames, " << result.events << " events, " << result.repeated
                << " repeated, " << result.outdated << " outdated; "
                << (result.outcome
                        ? result.outcome->finished ? "finished" : result.outcome->failure.message()
                        : "no outcome")
                << "\n";
    }
  } catch (const std::exception& error) {
    fault = std::string("exception: ") + error.what();
  }
  return fault.empty() ? "" : about + "\n  " + fault;
}

}  // namespace

int main(int count, char** words) try {
  const Arguments arguments = parse(count, words);
  uint64_t failures = 0;
  for (uint64_t seed = arguments.first; seed < arguments.first + arguments.count; ++seed) {
    const std::string fault = run(seed, arguments);
    if (fault.empty()) continue;
    ++failures;
    if (arguments.expect_failure) {
      std::cout << "found, as it must be: " << fault << "\n";
      return 0;
    }
    std::cout << fault << "\n  again: " << words[0] << " --first " << seed << " --count 1 --verbose"
              << (arguments.setup          ? " --setup"
                  : arguments.joins        ? " --join"
                  : arguments.late         ? " --late"
                  : arguments.reconfigures ? " --reconfigure"
                                           : "")
              << "\n";
  }
  std::cout << arguments.count << " seeds, " << failures << " failures\n";
  return (failures > 0) != arguments.expect_failure ? 1 : 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
