#include "core/printable.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "core/log.h"

using namespace poseidon;

TEST_CASE("printable: text is unchanged, control characters are escaped") {
  CHECK(printable("layer \"conv1\": 3 of 5, ü, 猫, 😀") == "layer \"conv1\": 3 of 5, ü, 猫, 😀");
  CHECK(printable("\x1b[2J\x1b]0;title\x07") == "\\x1b[2J\\x1b]0;title\\x07");
  CHECK(printable("a\nwarning: b\r\t\x7f") == "a\\x0awarning: b\\x0d\\x09\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J");  // CSI as one character
  CHECK(printable("\xe2\x80\xae"
                  "gnp.exe") == "\\xe2\\x80\\xaegnp.exe");  // right-to-left override
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("printable: bytes that are not UTF-8 are escaped") {
  for (const char* wrong :
       {"\xff", "\xc3", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    CHECK_FALSE(is_utf8(wrong));
    CHECK(printable(wrong).starts_with("\\x"));
  }
  CHECK(printable("a\xff"
                  "b") == "a\\xffb");
  CHECK(is_utf8("ü猫😀"));
  CHECK(is_utf8(""));
}

TEST_CASE("log: control characters are escaped on standard error") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  StandardErrorLog().warning("a job named \x1b[31mred\nwarning: faked");
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[1]);
  char words[256];
  const ssize_t count = read(ends[0], words, sizeof words);
  close(ends[0]);
  CHECK(std::string(words, static_cast<size_t>(count)) ==
        "warning: a job named \\x1b[31mred\\x0awarning: faked\n");
}

TEST_CASE("printable: one leading byte order mark is removed") {
  CHECK(without_byte_order_mark("\xEF\xBB\xBFname") == "name");
  CHECK(without_byte_order_mark("name") == "name");
  CHECK(without_byte_order_mark("\xEF\xBB").size() == 2);
}

TEST_CASE("printable: names that differ only in Unicode normalization are detected") {
  CHECK(differ_in_normalization("caf\u00E9", "cafe\u0301"));
  CHECK(differ_in_normalization("\u00C5ngstr\u00F6m", "A\u030Angstro\u0308m"));
  CHECK(differ_in_normalization("\uD55C", "\u1112\u1161\u11AB"));
  CHECK_FALSE(differ_in_normalization("caf\u00E9", "caf\u00E9"));
  CHECK_FALSE(differ_in_normalization("caf\u00E9", "cafe"));
  CHECK_FALSE(differ_in_normalization("caf\u00E9s", "cafe\u0301"));
  CHECK_FALSE(differ_in_normalization("cat", "dog"));
}
