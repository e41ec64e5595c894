#pragma once

#include <string>
#include <string_view>

#include "importer/place.h"

namespace poseidon::importer {

enum class TokenKind { kWord, kNumber, kString, kSign, kEnd };

/// A word ("TRAIN"), a number with its sign ("-1e-3", "-inf"), a string (unescaped; adjacent
/// strings are joined), or a punctuation character.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  Position position;

  bool is_sign(char sign) const { return kind == TokenKind::kSign && text[0] == sign; }
  /// Returns text for messages: "the end of the file", "\"conv1\"", "}".
  std::string shown() const;
};

/// Reads the tokens of a file in protobuf's text format, one after another.
class TextTokens {
 public:
  /// `content` must outlive the object. `file` is its name in messages.
  TextTokens(std::string_view content, std::string file);

  /// Returns the next token without removing it.
  const Token& peek() const { return token_; }
  /// Removes and returns the next token. Throws ConfigError if the text after it is not a token.
  Token take();

  [[noreturn]] void fail(Position position, const std::string& message) const;

 private:
  char at(size_t ahead) const;
  void step();
  void skip_blanks();
  Token read();
  Token read_word();
  Token read_number();
  void read_digits(std::string& into);
  void read_hexadecimal(std::string& into);
  void read_decimal(std::string& into);
  Token read_negative();
  Token read_strings();
  void read_string(std::string& into);
  void read_escape(std::string& into);
  void read_octal(std::string& into);
  void read_code(std::string& into, int least, int most, bool unicode);

  std::string_view content_;
  std::string file_;
  size_t index_ = 0;
  Position position_;
  Token token_;
};

}  // namespace poseidon::importer
