#!/usr/bin/env python3
"""Tests .ci/count_tests with output of ctest."""
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "count_tests"


def summary(passed, failed):
    return f"[doctest] test cases:  {passed + failed} |  {passed} passed | {failed} failed | 9 skipped"


def testcase(status, output="", inside=""):
    return f'<testcase name="t" status="{status}">{inside}<system-out>{output}</system-out></testcase>'


class Counts(unittest.TestCase):
    def counted(self, *tests):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f"<testsuite>{''.join(tests)}</testsuite>")
            file.flush()
            return subprocess.run([PROGRAM, file.name], capture_output=True, text=True, check=True).stdout.strip()

    def test_cases_of_doctest(self):
        self.assertEqual(self.counted(testcase("run", summary(5, 0)), testcase("fail", summary(2, 1))), "7 1")

    def test_one_without_a_summary(self):
        self.assertEqual(self.counted(testcase("run"), testcase("fail", "killed by a signal")), "1 1")

    def test_one_that_failed_after_its_cases_passed(self):
        self.assertEqual(self.counted(testcase("fail", summary(5, 0) + "\nLeakSanitizer")), "0 1")

    def test_skipped_and_not_found(self):
        self.assertEqual(self.counted(testcase("notrun", inside="<skipped/>"), testcase("notrun")), "0 1")

    def test_results_that_were_not_written(self):
        empty = subprocess.run([PROGRAM, "/nonexistent.xml"], capture_output=True, text=True, check=True)
        self.assertEqual(empty.stdout.strip(), "0 0")


if __name__ == "__main__":
    unittest.main()
