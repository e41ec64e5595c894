#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace poseidon::apps {

/// Returns a replacement for an unknown flag, such as "--set train.epochs=3"; "" for none. `value`
/// is the argument after the flag; "" if there is none or it is another flag.
using FlagAdvice = std::function<std::string(const std::string& flag, const std::string& value)>;

/// Parses the command line into the variables that `app` describes. Returns false after it has
/// printed --help or --version to standard output. Throws ConfigError for an invalid command line.
/// The message lists unknown flags in the order typed, each with a replacement if there is one. An
/// empty value of a flag is also invalid.
bool parse_command_line(CLI::App& app, const std::string& program, int count, char** arguments,
                        const FlagAdvice& advice = nullptr);

/// Wraps the lines of --help between words at 80 columns. The continuation lines of an option begin
/// at column `text_column`, as its description does. Other continuation lines keep the indentation
/// of their first line.
std::string wrapped_help(const std::string& help, size_t text_column);

}  // namespace poseidon::apps
