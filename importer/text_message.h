#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "importer/text_tokens.h"

namespace poseidon::importer {

struct TextField;

/// A message of protobuf's text format, as it stands: without knowledge of which fields there are.
struct TextMessage {
  Position position;
  std::vector<TextField> fields;  ///< in order; those of a list in brackets one by one
};

struct TextField {
  std::string name;
  Position position;
  Token value;                           ///< of a message only its position counts
  std::unique_ptr<TextMessage> message;  ///< null for other values
  /// Whether anything has asked for it: what is left in the end has no meaning here.
  mutable bool read = false;
};

/// Parses a file in protobuf's text format. Throws ConfigError with file, line and column:
/// malformed text, nesting deeper than 64.
TextMessage parse_text_message(std::string_view content, const std::string& file);

}  // namespace poseidon::importer
