#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/cpu/instruction_set.h"
#include "core/isa.h"

namespace poseidon::apps {

/// --isa, and --version, which says what it comes to. `group` is that of --isa in --help.
inline void add_isa_and_version(CLI::App& app, const std::string& program, const char* group) {
  app.add_option_function<std::string>(
         "--isa", [](const std::string& name) { choose_isa(name); },
         "compute with this instruction set and no better one, for example x86-64-v3")
      ->group(group)
      ->type_name("NAME");
  // Behind it: they are carried out in this order.
  app.set_version_flag("--version", [program] {
    return program + " " + POSEIDON_VERSION + "\n" + cpu::instruction_set();
  });
}

}  // namespace poseidon::apps
