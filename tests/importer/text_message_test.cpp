#include "importer/text_message.h"

#include <doctest/doctest.h>

#include <functional>

#include "core/error.h"
#include "importer/message_reader.h"
#include "tests/support/error_of.h"

namespace poseidon::importer {
namespace {

/// "name=value" for each field, with nested messages in parentheses.
std::string shown(const TextMessage& message) {
  std::string out;
  for (const TextField& field : message.fields) {
    out += (out.empty() ? "" : " ") + field.name + "=";
    out += field.message ? "(" + shown(*field.message) + ")" : field.value.shown();
  }
  return out;
}

std::string parsed(const std::string& content) {
  return shown(parse_text_message(content, "n.prototxt"));
}

std::string fault(const std::string& content) {
  return error_of<ConfigError>([&] { parsed(content); });
}

/// A message and a reader of it.
struct Read {
  explicit Read(const std::string& content) : message(parse_text_message(content, "n.prototxt")) {}
  TextMessage message;
  MessageReader reader{&message, {"n.prototxt", {}}};
};

std::string fault_of(const std::string& content,
                     const std::function<void(const MessageReader&)>& read) {
  const Read held(content);
  return error_of<ConfigError>([&] { read(held.reader); });
}

}  // namespace

TEST_CASE("text format: fields, messages with and without a colon, comments and separators") {
  CHECK(parsed("") == "");
  CHECK(parsed("# only a comment") == "");
  CHECK(parsed("a: 1 b: WORD\n c: \"text\"") == "a=1 b=WORD c=\"text\"");
  CHECK(parsed("m { a: 1 } m: { a: 2 } m < a: 3 > m: < >") == "m=(a=1) m=(a=2) m=(a=3) m=()");
  CHECK(parsed("a: 1; b: 2, c { d: 3; }; # end\n") == "a=1 b=2 c=(d=3)");
}

TEST_CASE("text format: lists in brackets are repeated fields") {
  CHECK(parsed("a: [1, 2, 3] b: [] c: [X]") == "a=1 a=2 a=3 c=X");
  CHECK(parsed("m [{ a: 1 }, < a: 2 >] n: [{}]") == "m=(a=1) m=(a=2) n=()");
}

TEST_CASE("text format: escapes are decoded, and adjacent strings are concatenated") {
  const auto text = [](const std::string& content) {
    return parse_text_message("a: " + content, "n").fields.at(0).value.text;
  };
  CHECK(text(R"("a\n\t\r\\\"\'\?\a\b\f\v")") == "a\n\t\r\\\"'?\a\b\f\v");
  CHECK(text(R"('it "is"')") == "it \"is\"");
  CHECK(text(R"("\101\x41\X4a\0")") == std::string("AAJ\0", 4));
  CHECK(text(R"("\u00e9\U0001F600")") == "\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(text("\"one\" 'two' # comment\n \"three\"") == "onetwothree");
}

TEST_CASE("text format: numbers of every form") {
  CHECK(parsed("a: 12 b: -3 c: - 4 d: 0x1F e: 017 f: 1.5 g: .5 h: 2. i: 1e-3 j: 1E+4 k: 1.5f l: "
               "3F m: -inf n: - nan o: inf") ==
        "a=12 b=-3 c=-4 d=0x1F e=017 f=1.5 g=.5 h=2. i=1e-3 j=1E+4 k=1.5 l=3 m=-inf n=-nan o=inf");
}

TEST_CASE("text format: each error states line, column, expected and got") {
  CHECK(fault("a: 1\n  b 2") == "n.prototxt:2:5: expected : or { after \"b\", got 2");
  CHECK(fault("a:") == "n.prototxt:1:3: expected a value of \"a\", got the end of the file");
  CHECK(fault("a: }") == "n.prototxt:1:4: expected a value of \"a\", got }");
  CHECK(fault("1: 2") == "n.prototxt:1:1: expected a field, got 1");
  CHECK(fault("m {\n a: 1\n") ==
        "n.prototxt:3:1: expected } to end the message that begins in line 1, got the end of the "
        "file");
  CHECK(fault("m < a: 1 }") == "n.prototxt:1:10: expected a field or }, got }");
  CHECK(fault("}") == "n.prototxt:1:1: expected a field, got }");
  CHECK(fault("a: [1 2]") == "n.prototxt:1:7: expected , or ], got 2");
  CHECK(fault("a: [1,]") == "n.prototxt:1:7: expected a value of \"a\", got ]");
  CHECK(fault("[ext.name]: 1") == "n.prototxt:1:1: expected a Caffe field, got an extension");
  CHECK(fault("a: 12ab") == "n.prototxt:1:4: expected a number, got 12ab");
  CHECK(fault("a: 1.2.3") == "n.prototxt:1:4: expected a number, got 1.2.3");
  CHECK(fault("a: 0x") == "n.prototxt:1:4: expected hexadecimal digits after 0x");
  CHECK(fault("a: -b") == "n.prototxt:1:4: expected a number after \"-\", got b");
  CHECK(fault("a: -") == "n.prototxt:1:4: expected a number after \"-\", got none");
  CHECK(fault("a: \"open\nb: 1") ==
        "n.prototxt:1:4: expected \" at the end of the string that begins here, got the end of the "
        "line");
  CHECK(fault("a: 'open") ==
        "n.prototxt:1:4: expected ' at the end of the string that begins here, got the end of the "
        "file");
  CHECK(fault(R"(a: "\q")") ==
        "n.prototxt:1:5: expected an escape such as \\n, \\x41 or \\101, got \\q");
  CHECK(fault(R"(a: "\xg")") ==
        "n.prototxt:1:7: expected 1 hexadecimal digits in the escape, got 0");
  CHECK(fault(R"(a: "\u12")") ==
        "n.prototxt:1:7: expected 4 hexadecimal digits in the escape, got 2");
  CHECK(fault(R"(a: "\uD800")") == "n.prototxt:1:7: the escape is not a Unicode character");
  CHECK(fault("a: 1 $") == "n.prototxt:1:6: expected a name, a value or one of {}<>[]:;, got $");
  CHECK(fault(std::string("a\0", 2)) ==
        "n.prototxt:1:2: expected a name, a value or one of {}<>[]:;, got \\x00");
}

TEST_CASE("text format: nesting deeper than 64 is refused") {
  const auto nested = [](int depth) {
    std::string out;
    for (int i = 0; i < depth; ++i) out += "m{";
    return out + std::string(static_cast<size_t>(depth), '}');
  };
  CHECK(fault(nested(64)) == "");
  CHECK(fault(nested(65)) == "n.prototxt:1:130: messages are nested deeper than 64");
}

TEST_CASE("fields are read by name and type") {
  const Read held("i: 0x10 n: 1.5 b: true w: AVE e: 1 t: 'x' r: [1, -2] m { i: 3 } b1: 0");
  const MessageReader& reader = held.reader;
  CHECK(reader.integer("i") == 16);
  CHECK(reader.number("n") == 1.5);
  CHECK(reader.number("r2") == std::nullopt);
  CHECK(reader.boolean("b") == true);
  CHECK(reader.boolean("b1") == false);
  CHECK(reader.word("w", {"MAX", "AVE"}) == "AVE");
  CHECK(reader.word("e", {"MAX", "AVE"}) == "AVE");
  CHECK(reader.text("t") == "x");
  CHECK(reader.integers("r") == std::vector<int64_t>{1, -2});
  CHECK(reader.message("m").integer("i") == 3);
  CHECK(reader.message("none").integer("i") == std::nullopt);
  CHECK(reader.place_of("m").text() == "n.prototxt:1:54");
}

TEST_CASE("a wrong type, a repeated field or an unknown field is reported with its position") {
  using R = MessageReader;
  const IntegerRange few{.least = 1, .most = 9};
  CHECK(fault_of("a: x", [](const R& r) { r.integer("a"); }) ==
        "n.prototxt:1:4: \"a\": expected an integer, got x");
  CHECK(fault_of("a: 10", [&](const R& r) { r.integer("a", few); }) ==
        "n.prototxt:1:4: \"a\": expected an integer from 1 to 9, got 10");
  CHECK(fault_of("a: 99999999999999999999", [](const R& r) { r.integer("a"); }) ==
        "n.prototxt:1:4: \"a\": expected an integer, got 99999999999999999999");
  CHECK(fault_of("a: 09", [](const R& r) { r.integer("a"); }) ==
        "n.prototxt:1:4: \"a\": expected an integer, got 09");
  CHECK(fault_of("a: 'x'", [](const R& r) { r.number("a"); }) ==
        "n.prototxt:1:4: \"a\": expected a number, got \"x\"");
  CHECK(fault_of("a: 017", [](const R& r) { r.number("a"); }) ==
        "n.prototxt:1:4: \"a\": expected a number, got 017");
  CHECK(fault_of("a: nan", [](const R& r) { r.number("a"); }) ==
        "n.prototxt:1:4: \"a\": expected a finite number, got nan");
  CHECK(fault_of("a: 2", [](const R& r) { r.boolean("a"); }) ==
        "n.prototxt:1:4: \"a\": expected true or false, got 2");
  CHECK(fault_of("a: MIN", [](const R& r) {
          r.word("a", {"MAX", "AVE"});
        }) == "n.prototxt:1:4: \"a\": expected one of MAX, AVE, got MIN");
  CHECK(fault_of("a: b", [](const R& r) { r.text("a"); }) ==
        "n.prototxt:1:4: \"a\": expected a quoted string, got b");
  CHECK(fault_of("a: '\\xff'", [](const R& r) { r.text("a"); }) ==
        "n.prototxt:1:4: \"a\": expected UTF-8, got \"\\xff\"");
  CHECK(fault_of("a { }", [](const R& r) { r.integer("a"); }) ==
        "n.prototxt:1:3: \"a\": expected an integer, got a message");
  CHECK(fault_of("a: 1", [](const R& r) { r.message("a"); }) ==
        "n.prototxt:1:4: \"a\": expected a message between { and }, got 1");
  CHECK(fault_of("a: 1\na: 2", [](const R& r) { r.integer("a"); }) ==
        "n.prototxt:2:1: expected \"a\" once, got it a second time (the first is in line 1)");
}

TEST_CASE("an unread field is refused at any depth") {
  SilentLog log;
  Remarks strict(log, false);
  CHECK(fault_of("a: 1 m { b: 2\n c: 3 }",
                 [&](const MessageReader& reader) {
                   reader.integer("a");
                   reader.message("m").integer("b");
                   reader.refuse_unread(strict);
                 }) ==
        "n.prototxt:2:2: the field \"c\" has no equivalent in Poseidon (--skip-unknown continues "
        "without it)");
}

}  // namespace poseidon::importer
