#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace poseidon::apps {

/// Returns the replacement of a flag that a program does not have, such as "--set train.epochs=3";
/// "" for none.
/// `value` is the argument after the flag; "" where that is another flag, or none.
using FlagAdvice = std::function<std::string(const std::string& flag, const std::string& value)>;

/// Fills what `app` describes. Returns false where --help or --version was answered on standard
/// output. Throws ConfigError for a wrong command line: unknown flags in the order typed, each with
/// its replacement, and flags whose value is empty.
bool parse_command_line(CLI::App& app, const std::string& program, int count, char** arguments,
                        const FlagAdvice& advice = nullptr);

/// Lines of --help, wrapped between words at 80 columns. A line that goes on is indented as the
/// text of its option, which begins at column `text_column`.
std::string wrapped_help(const std::string& help, size_t text_column);

}  // namespace poseidon::apps
