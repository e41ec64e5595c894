#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/cpu/instruction_set.h"
#include "core/isa.h"

namespace poseidon::apps {

/// Adds --isa, and --version, which also prints the resulting instruction set. `group` is the group
/// of --isa in --help.
inline void add_isa_and_version(CLI::App& app, const std::string& program, const char* group) {
  app.add_option_function<std::string>(
         "--isa", [](const std::string& name) { choose_isa(name); },
         "highest instruction set to use, for example x86-64-v3")
      ->group(group)
      ->type_name("NAME");
  // CLI11 processes the flags in this order, so --version prints the effect of --isa.
  app.set_version_flag("--version", [program] {
    return program + " " + POSEIDON_VERSION + "\n" + cpu::instruction_set();
  });
}

}  // namespace poseidon::apps
