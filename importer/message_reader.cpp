#include "importer/message_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/printable.h"

namespace poseidon::importer {

namespace {

/// Parses a decimal, hexadecimal (0x1f) or octal (017) integer, like protobuf.
std::optional<int64_t> parsed_integer(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    digits.remove_prefix(2);
    base = 16;
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value, base);
  if (fault != std::errc() || stop != end || digits.empty() || value < 0) return std::nullopt;
  return negative ? -value : value;
}

/// Parses a decimal number. Rejects octal integers (leading zero) and hexadecimal numbers, like
/// protobuf.
std::optional<double> parsed_number(std::string_view digits) {
  const std::string_view whole = digits.substr(digits.starts_with('-') ? 1 : 0);
  const bool octal = whole.size() > 1 && whole[0] == '0' && whole[1] >= '0' && whole[1] <= '9' &&
                     whole.find_first_of(".eE") == std::string_view::npos;
  if (octal || whole.starts_with("0x") || whole.starts_with("0X")) return std::nullopt;
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value);
  if (fault != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string range_text(IntegerRange range) {
  if (range.least == kAnyInteger.least) return "an integer";
  if (range.most == kAnyInteger.most || range.most == kExtent.most)
    return text("an integer >= ", range.least);
  return text("an integer from ", range.least, " to ", range.most);
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

void mark_read(const TextMessage& message) {
  for (const TextField& field : message.fields) {
    field.read = true;
    if (field.message) mark_read(*field.message);
  }
}

[[noreturn]] void expected(const TextField& field, const std::string& file,
                           const std::string& what) {
  fail_at({file, field.value.position}, text("\"", field.name, "\": expected ", what, ", got ",
                                             field.message ? "a message" : field.value.shown()));
}

int64_t integer_of(const TextField& field, const std::string& file, IntegerRange range) {
  std::optional<int64_t> value;
  if (field.value.kind == TokenKind::kNumber && !field.message)
    value = parsed_integer(field.value.text);
  if (!value || *value < range.least || *value > range.most)
    expected(field, file, range_text(range));
  return *value;
}

double number_of(const TextField& field, const std::string& file) {
  const bool plain = field.value.kind == TokenKind::kNumber || field.value.kind == TokenKind::kWord;
  std::optional<double> value;
  if (plain && !field.message) value = parsed_number(field.value.text);
  if (!value) expected(field, file, "a number");
  if (!std::isfinite(*value)) expected(field, file, "a finite number");
  return *value;
}

std::string text_of(const TextField& field, const std::string& file) {
  if (field.message || field.value.kind != TokenKind::kString)
    expected(field, file, "a quoted string");
  if (!is_utf8(field.value.text)) expected(field, file, "UTF-8");
  return field.value.text;
}

}  // namespace

Place MessageReader::place_of(std::string_view name) const {
  const TextField* field = find(name);
  return field == nullptr ? place_ : at(field->position);
}

std::optional<int64_t> MessageReader::integer(std::string_view name, IntegerRange range) const {
  const TextField* field = one(name);
  if (field == nullptr) return std::nullopt;
  return integer_of(*field, place_.file, range);
}

std::optional<double> MessageReader::number(std::string_view name) const {
  const TextField* field = one(name);
  if (field == nullptr) return std::nullopt;
  return number_of(*field, place_.file);
}

std::optional<bool> MessageReader::boolean(std::string_view name) const {
  const TextField* field = one(name);
  if (field == nullptr) return std::nullopt;
  const std::string& value = field->value.text;
  const auto is_one_of = [&](std::initializer_list<const char*> words) {
    return field->value.kind != TokenKind::kString &&
           std::ranges::find(words, value) != words.end();
  };
  if (!field->message && is_one_of({"true", "True", "t", "1"})) return true;
  if (!field->message && is_one_of({"false", "False", "f", "0"})) return false;
  expected(*field, place_.file, "true or false");
}

std::optional<std::string> MessageReader::text(std::string_view name) const {
  const TextField* field = one(name);
  if (field == nullptr) return std::nullopt;
  return text_of(*field, place_.file);
}

std::optional<std::string> MessageReader::word(std::string_view name,
                                               const std::vector<std::string>& words) const {
  const TextField* field = one(name);
  if (field == nullptr) return std::nullopt;
  const Token& value = field->value;
  if (!field->message && value.kind == TokenKind::kWord && std::ranges::count(words, value.text))
    return value.text;
  const auto index = value.kind == TokenKind::kNumber ? parsed_integer(value.text) : std::nullopt;
  if (index && *index >= 0 && *index < static_cast<int64_t>(words.size()))
    return words[static_cast<size_t>(*index)];
  expected(*field, place_.file, "one of " + joined(words));
}

std::vector<int64_t> MessageReader::integers(std::string_view name, IntegerRange range) const {
  std::vector<int64_t> values;
  for (const TextField* field : all(name)) values.push_back(integer_of(*field, place_.file, range));
  return values;
}

std::vector<double> MessageReader::numbers(std::string_view name) const {
  std::vector<double> values;
  for (const TextField* field : all(name)) values.push_back(number_of(*field, place_.file));
  return values;
}

std::vector<std::string> MessageReader::texts(std::string_view name) const {
  std::vector<std::string> values;
  for (const TextField* field : all(name)) values.push_back(text_of(*field, place_.file));
  return values;
}

std::vector<std::string> MessageReader::words(std::string_view name) const {
  std::vector<std::string> values;
  for (const TextField* field : all(name)) {
    const bool plain =
        field->value.kind == TokenKind::kWord || field->value.kind == TokenKind::kNumber;
    if (field->message || !plain) expected(*field, place_.file, "a word");
    values.push_back(field->value.text);
  }
  return values;
}

MessageReader MessageReader::message(std::string_view name) const {
  const TextField* field = one(name);
  return field == nullptr ? MessageReader(nullptr, place_) : message_of(*field);
}

std::vector<MessageReader> MessageReader::messages(std::string_view name) const {
  std::vector<MessageReader> found;
  for (const TextField* field : all(name)) found.push_back(message_of(*field));
  return found;
}

void MessageReader::mark_as_read(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    for (const TextField* field : all(name))
      if (field->message) mark_read(*field->message);
}

void MessageReader::mark_all_as_read() const {
  if (message_ != nullptr) mark_read(*message_);
}

void MessageReader::refuse_unread(Remarks& remarks) const {
  if (message_ == nullptr) return;
  for (const TextField& field : message_->fields) {
    if (!field.read)
      remarks.refuse(at(field.position), poseidon::text("the field \"", field.name,
                                                        "\" has no equivalent in Poseidon"));
    else if (field.message)
      message_of(field).refuse_unread(remarks);
  }
}

std::vector<const TextField*> MessageReader::all(std::string_view name) const {
  std::vector<const TextField*> found;
  if (message_ == nullptr) return found;
  for (const TextField& field : message_->fields) {
    if (field.name != name) continue;
    field.read = true;
    found.push_back(&field);
  }
  return found;
}

const TextField* MessageReader::one(std::string_view name) const {
  const std::vector<const TextField*> found = all(name);
  if (found.empty()) return nullptr;
  if (found.size() > 1)
    fail_at(
        at(found[1]->position),
        poseidon::text("expected \"", name, "\" once, got it a second time (the first is in line ",
                       found[0]->position.line, ")"));
  return found[0];
}

const TextField* MessageReader::find(std::string_view name) const {
  if (message_ == nullptr) return nullptr;
  const auto found = std::ranges::find(message_->fields, name, &TextField::name);
  return found == message_->fields.end() ? nullptr : &*found;
}

MessageReader MessageReader::message_of(const TextField& field) const {
  if (!field.message) expected(field, place_.file, "a message between { and }");
  return {field.message.get(), at(field.position)};
}

}  // namespace poseidon::importer
