#include "importer/text_tokens.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "core/error.h"
#include "core/printable.h"

namespace poseidon::importer {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_hexadecimal(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool begins_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_of_word(char c) { return begins_word(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

uint32_t value_of_digit(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  return static_cast<uint32_t>(std::tolower(c) - 'a') + 10;
}

void append_utf8(std::string& into, uint32_t code) {
  const auto tail = [&](int shift) { into += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    into += static_cast<char>(code);
  } else if (code < 0x800) {
    into += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    into += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    into += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Returns true for inf, infinity and nan in any case: the only words that may follow a minus sign.
bool is_special_number(std::string word) {
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word == "inf" || word == "infinity" || word == "nan";
}

}  // namespace

std::string Token::shown() const {
  constexpr size_t kMax = 60;
  if (kind == TokenKind::kEnd) return "the end of the file";
  const std::string whole = printable(text.substr(0, kMax)) + (text.size() > kMax ? "..." : "");
  return kind == TokenKind::kString ? "\"" + whole + "\"" : whole;
}

TextTokens::TextTokens(std::string_view content, std::string file)
    : content_(content), file_(std::move(file)) {
  if (content_.starts_with("\xEF\xBB\xBF")) content_.remove_prefix(3);  // a byte order mark
  token_ = read();
}

Token TextTokens::take() {
  Token taken = std::move(token_);
  token_ = read();
  return taken;
}

void TextTokens::fail(Position position, const std::string& message) const {
  fail_at({file_, position}, message);
}

/// Returns the character `ahead` positions after the current one; '\0' after the end of the file. A
/// string in the file may also contain '\0'.
char TextTokens::at(size_t ahead) const {
  return index_ + ahead < content_.size() ? content_[index_ + ahead] : '\0';
}

void TextTokens::step() {
  if (at(0) == '\n') {
    ++position_.line;
    position_.column = 0;
  }
  ++position_.column;
  ++index_;
}

void TextTokens::skip_blanks() {
  while (is_blank(at(0)) || at(0) == '#') {
    if (at(0) == '#')
      while (index_ < content_.size() && at(0) != '\n') step();
    else
      step();
  }
}

Token TextTokens::read() {
  skip_blanks();
  if (index_ >= content_.size()) return {.text = "", .position = position_};
  const char c = at(0);
  if (begins_word(c)) return read_word();
  if (is_digit(c) || (c == '.' && is_digit(at(1)))) return read_number();
  if (c == '-') return read_negative();
  if (c == '"' || c == '\'') return read_strings();
  if (std::string_view("{}<>[]:;,./").find(c) == std::string_view::npos)
    fail(position_, "expected a name, a value or one of {}<>[]:;, got " +
                        printable(content_.substr(index_, 1)));
  const Token sign{.kind = TokenKind::kSign, .text = std::string(1, c), .position = position_};
  step();
  return sign;
}

Token TextTokens::read_word() {
  Token token{.kind = TokenKind::kWord, .text = "", .position = position_};
  for (; is_of_word(at(0)); step()) token.text += at(0);
  return token;
}

Token TextTokens::read_number() {
  Token token{.kind = TokenKind::kNumber, .text = "", .position = position_};
  if (at(0) == '0' && (at(1) == 'x' || at(1) == 'X'))
    read_hexadecimal(token.text);
  else
    read_decimal(token.text);
  if (is_of_word(at(0)) || at(0) == '.') {
    for (; is_of_word(at(0)) || at(0) == '.'; step()) token.text += at(0);
    fail(token.position, "expected a number, got " + token.shown());
  }
  return token;
}

void TextTokens::read_digits(std::string& into) {
  for (; is_digit(at(0)); step()) into += at(0);
}

void TextTokens::read_hexadecimal(std::string& into) {
  const Position begin = position_;
  for (int i = 0; i < 2; ++i, step()) into += at(0);
  if (!is_hexadecimal(at(0))) fail(begin, "expected hexadecimal digits after 0x");
  for (; is_hexadecimal(at(0)); step()) into += at(0);
}

/// Reads a decimal or octal integer, or a decimal fraction. Skips a suffix "f".
void TextTokens::read_decimal(std::string& into) {
  read_digits(into);
  if (at(0) == '.') {
    into += '.';
    step();
    read_digits(into);
  }
  const size_t sign = at(1) == '+' || at(1) == '-' ? 2 : 1;
  if ((at(0) == 'e' || at(0) == 'E') && is_digit(at(sign))) {
    for (size_t i = 0; i < sign; ++i, step()) into += at(0);
    read_digits(into);
  }
  if ((at(0) == 'f' || at(0) == 'F') && !is_of_word(at(1))) step();
}

/// Reads a minus sign and a number. Blanks may separate them.
Token TextTokens::read_negative() {
  const Position begin = position_;
  step();
  skip_blanks();
  Token token;
  if (is_digit(at(0)) || at(0) == '.')
    token = read_number();
  else if (begins_word(at(0)))
    token = read_word();
  if (token.text.empty() || (token.kind == TokenKind::kWord && !is_special_number(token.text)))
    fail(begin,
         "expected a number after \"-\", got " + (token.text.empty() ? "none" : token.shown()));
  return {.kind = TokenKind::kNumber, .text = "-" + token.text, .position = begin};
}

Token TextTokens::read_strings() {
  Token token{.kind = TokenKind::kString, .text = "", .position = position_};
  while (at(0) == '"' || at(0) == '\'') {
    read_string(token.text);
    skip_blanks();
  }
  return token;
}

void TextTokens::read_string(std::string& into) {
  const Position begin = position_;
  const char quote = at(0);
  step();
  while (at(0) != quote) {
    if (index_ >= content_.size() || at(0) == '\n')
      fail(begin, text("expected ", quote, " at the end of the string that begins here, got the ",
                       index_ >= content_.size() ? "end of the file" : "end of the line"));
    if (at(0) == '\\') {
      read_escape(into);
    } else {
      into += at(0);
      step();
    }
  }
  step();
}

void TextTokens::read_escape(std::string& into) {
  static constexpr std::string_view kNames = "abfnrtv\\'\"?", kMeanings = "\a\b\f\n\r\t\v\\'\"?";
  const Position begin = position_;
  step();
  const char c = at(0);
  if (is_octal(c)) return read_octal(into);
  const bool letter = c != '\0';
  if (letter) step();
  if (letter && (c == 'x' || c == 'X')) return read_code(into, 1, 2, false);
  if (letter && c == 'u') return read_code(into, 4, 4, true);
  if (letter && c == 'U') return read_code(into, 8, 8, true);
  const size_t known = letter ? kNames.find(c) : std::string_view::npos;
  if (known == std::string_view::npos)
    fail(begin, "expected an escape such as \\n, \\x41 or \\101, got \\" +
                    (letter ? printable(std::string(1, c)) : " at the end of the file"));
  into += kMeanings[known];
}

void TextTokens::read_octal(std::string& into) {
  uint32_t code = 0;
  for (int i = 0; i < 3 && is_octal(at(0)); ++i, step()) code = code * 8 + value_of_digit(at(0));
  into += static_cast<char>(code & 0xFF);
}

void TextTokens::read_code(std::string& into, int least, int most, bool unicode) {
  const Position begin = position_;
  uint32_t code = 0;
  int digits = 0;
  for (; digits < most && is_hexadecimal(at(0)); ++digits, step())
    code = code * 16 + value_of_digit(at(0));
  if (digits < least)
    fail(begin, text("expected ", least, " hexadecimal digits in the escape, got ", digits));
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (unicode && (code > 0x10FFFF || surrogate))
    fail(begin, "the escape is not a Unicode character");
  if (unicode)
    append_utf8(into, code);
  else
    into += static_cast<char>(code);
}

}  // namespace poseidon::importer
