#include "importer/text_message.h"

#include "core/error.h"

namespace poseidon::importer {

namespace {

constexpr int kMaxNested = 64;

class TextParser {
 public:
  TextParser(std::string_view content, const std::string& file) : tokens_(content, file) {}

  TextMessage parse() {
    TextMessage message;
    while (tokens_.peek().kind != TokenKind::kEnd) read_field(message);
    return message;
  }

 private:
  const Token& next() const { return tokens_.peek(); }

  [[noreturn]] void expected(const std::string& what) const {
    tokens_.fail(next().position, "expected " + what + ", got " + next().shown());
  }

  bool take_if(char sign) {
    if (!next().is_sign(sign)) return false;
    tokens_.take();
    return true;
  }

  bool opens_message() const { return next().is_sign('{') || next().is_sign('<'); }

  void read_field(TextMessage& into) {
    if (next().is_sign('['))
      tokens_.fail(next().position, "expected a Caffe field, got an extension");
    if (next().kind != TokenKind::kWord) expected(depth_ == 0 ? "a field" : "a field or }");
    const Token name = tokens_.take();
    const bool colon = take_if(':');
    if (take_if('['))
      read_list(into, name, colon);
    else
      read_value(into, name, colon);
    if (!take_if(';')) take_if(',');
  }

  void read_list(TextMessage& into, const Token& name, bool colon) {
    if (take_if(']')) return;
    do {
      read_value(into, name, colon);
    } while (take_if(','));
    if (!take_if(']')) expected(", or ]");
  }

  void read_value(TextMessage& into, const Token& name, bool colon) {
    TextField field{.name = name.text, .position = name.position, .value = {}, .message = {}};
    if (opens_message()) {
      field.value.position = next().position;
      field.message = std::make_unique<TextMessage>(read_message());
    } else if (!colon) {
      expected(": or { after \"" + name.text + "\"");
    } else if (next().kind == TokenKind::kSign || next().kind == TokenKind::kEnd) {
      expected("a value of \"" + name.text + "\"");
    } else {
      field.value = tokens_.take();
    }
    into.fields.push_back(std::move(field));
  }

  TextMessage read_message() {
    const Token open = tokens_.take();
    const char close = open.is_sign('{') ? '}' : '>';
    if (++depth_ > kMaxNested)
      tokens_.fail(open.position, text("messages are nested deeper than ", kMaxNested));
    TextMessage message{.position = open.position, .fields = {}};
    while (!next().is_sign(close)) {
      if (next().kind == TokenKind::kEnd)
        expected(text(close, " to end the message that begins in line ", open.position.line));
      read_field(message);
    }
    tokens_.take();
    --depth_;
    return message;
  }

  TextTokens tokens_;
  int depth_ = 0;
};

}  // namespace

TextMessage parse_text_message(std::string_view content, const std::string& file) {
  return TextParser(content, file).parse();
}

}  // namespace poseidon::importer
