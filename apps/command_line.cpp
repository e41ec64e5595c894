#include "apps/command_line.h"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/name_list.h"

namespace poseidon::apps {

namespace {

constexpr size_t kColumns = 80;

using Words = std::vector<std::string>;

bool is_flag(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

/// Returns "--epochs" for "--epochs=3".
std::string name_of_flag(const std::string& word) { return word.substr(0, word.find('=')); }

/// Returns the value of a flag: the text after its "=", or the next argument. Returns "" if the
/// next argument is a flag or missing.
std::string value_of_flag(const Words& words, size_t index) {
  const size_t equals = words[index].find('=');
  if (equals != std::string::npos) return words[index].substr(equals + 1);
  return index + 1 < words.size() && !is_flag(words[index + 1]) ? words[index + 1] : "";
}

/// Returns the subcommand on the command line, or `app` if there is none.
const CLI::App& parsed_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.back();
}

Words flags_of(const CLI::App& app) {
  Words flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::string unknown_flag_text(const CLI::App& app, const Words& words, size_t index,
                              const FlagAdvice& advice) {
  const std::string flag = name_of_flag(words[index]);
  std::string meant = flag.size() > 3 ? nearest(flag, flags_of(app)) : "";
  if (meant.empty() && advice) meant = advice(flag, value_of_flag(words, index));
  return "unknown flag " + flag + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

/// Describes the unexpected arguments in the order typed. If there are unknown flags, describes
/// only these: the argument after a flag may be its value.
std::string unexpected_text(const CLI::App& app, const Words& words, const Words& unexpected,
                            const FlagAdvice& advice) {
  std::string flags, others;
  for (size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(unexpected, words[i]) == unexpected.end()) continue;
    if (is_flag(words[i]))
      flags += (flags.empty() ? "" : "; ") + unknown_flag_text(app, words, i, advice);
    else
      others += (others.empty() ? "" : " ") + words[i];
  }
  if (!flags.empty()) return flags;
  return "expected no further argument, got " + others;
}

std::string missing_command_text(const CLI::App& app, const Words& words) {
  Words names;
  std::string listed;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    listed += (listed.empty() ? "" : ", ") + command->get_name();
  }
  const auto word = std::ranges::find_if_not(words, is_flag);
  if (word == words.end()) return "expected a command, got none; commands: " + listed;
  return "unknown command \"" + *word + "\", expected one of: " + listed + suggestion(*word, names);
}

/// Lists the required arguments that are not given.
std::string missing_arguments_text(const CLI::App& command) {
  Words missing;
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0) missing.push_back(option->get_name());
  return name_list(missing) + (missing.size() == 1 ? " is required" : " are required");
}

/// Rewords CLI11's message, such as "--workers: 1 required INT missing".
std::string missing_value_text(const CLI::ArgumentMismatch& error) {
  const std::string_view said = error.what(), begin = ": 1 required ", end = " missing";
  const size_t at = said.find(begin);
  if (at == said.npos || !said.ends_with(end)) return error.what();
  const std::string_view kind =
      said.substr(at + begin.size(), said.size() - end.size() - at - begin.size());
  return text(said.substr(0, at), ": expected a value (", kind, "), got none");
}

void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw ConfigError(option->get_name() + ": expected a value, got an empty string");
}

}  // namespace

std::string wrapped_help(const std::string& help, size_t text_column) {
  std::istringstream lines(help);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const size_t text_begin = line.find_first_not_of(' ');
    const bool of_option = text_begin != std::string::npos && text_begin > 0 &&
                           (line.size() > text_column && line[text_column - 1] == ' ');
    const size_t indent = of_option ? text_column : std::min(text_begin, text_column);
    while (line.size() > kColumns) {
      const size_t blank = line.rfind(' ', kColumns);
      if (blank == std::string::npos || blank <= indent) break;
      out += line.substr(0, line.find_last_not_of(' ', blank) + 1) + "\n";
      line = std::string(indent, ' ') + line.substr(blank + 1);
    }
    out += line + "\n";
  }
  return out;
}

bool parse_command_line(CLI::App& app, const std::string& program, int count, char** arguments,
                        const FlagAdvice& advice) {
  const Words words(arguments + 1, arguments + count);
  const auto see = [&] {
    const CLI::App& command = parsed_command(app);
    return text(" (see ", program, &command == &app ? "" : " " + command.get_name(), " --help)");
  };
  try {
    app.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    std::cout << wrapped_help(app.help(), app.get_formatter()->get_column_width());
    return false;
  } catch (const CLI::Success& success) {
    app.exit(success, std::cout, std::cerr);
    return false;
  } catch (const CLI::ExtrasError&) {
    const Words unexpected = app.remaining(true);
    throw ConfigError(unexpected_text(parsed_command(app), words, unexpected, advice) + see());
  } catch (const CLI::RequiredError&) {
    const bool lacks_command =
        app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
    throw ConfigError((lacks_command ? missing_command_text(app, words)
                                     : missing_arguments_text(parsed_command(app))) +
                      see());
  } catch (const CLI::ArgumentMismatch& error) {
    throw ConfigError(missing_value_text(error) + see());
  } catch (const CLI::ParseError& error) {
    throw ConfigError(error.what() + see());
  }
  refuse_empty_values(app);
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
  return true;
}

}  // namespace poseidon::apps
