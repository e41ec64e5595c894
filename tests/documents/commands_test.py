#!/usr/bin/env python3
"""Tests of run_documents.py: parsed commands, and documents with one fault each that it must find."""
import pathlib
import tempfile
import unittest
from unittest import mock

import commands
import fixtures
import run_documents

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.clone = pathlib.Path(folder.name) / "clone"
        self.clone.mkdir()
        self.told = []

    def written(self, *lines):
        path = self.clone / "page.md"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def blocks(self, *lines):
        return commands.read(self.written(*lines), self.clone)

    def run_page(self, *lines, tables=None):
        reader = run_documents.Reader(self.clone, tables or fixtures.Tables(), tell=self.told.append)
        reader.read(self.written(*lines))
        return reader


class WhatIsRead(Scratch):
    def test_blocks_are_cut_into_commands_with_their_lines(self):
        found = self.blocks("# Page", "```sh", "one    # says why", "two --a \\", "    --b", "```",
                            "```text", "not this", "```", "* a list", "  ```sh", "  for x in 1 2; do", "    echo $x",
                            "  done", "  ```")
        self.assertEqual([[(c.line, c.words) for c in block] for block in found],
                         [[(3, "one"), (4, "two --a --b")], [(12, "for x in 1 2; do echo $x done")]])

    def test_comments_say_on_which_hosts(self):
        block, = self.blocks("```sh", "a b  # on node1, node2 and node3", "c  # only once", "d head:7000",
                             "e | head -1", "```")
        self.assertEqual([c.hosts for c in block], [["node1", "node2", "node3"], [], [], []])
        self.assertEqual([c.names_hosts for c in block], [True, False, True, False])

    def test_daemons_and_ampersands_go_to_the_background(self):
        block, = self.blocks("```sh", "poseidon-worker --x", "poseidon-server --x --once", "sleep 1 &", "a && b", "```")
        self.assertEqual([c.goes_to_background for c in block], [True, False, True, False])

    def test_placeholders_are_what_nobody_can_type(self):
        block, = self.blocks("```sh", "train JOB.json <folder> --to DIR",
                             "x -subj /CN=a -CAkey $PWD/A_B A_B=1 b:P-256 >f", "```")
        self.assertEqual([c.placeholders for c in block], [["JOB.json", "<folder>", "DIR"], []])

    def test_blocks_that_do_not_say_what_they_are_are_refused(self):
        for lines, fault in ((["```", "a", "```"], "page.md:1: expected a block of json, sh, text, got \"\""),
                             (["text", "", "    a"], "page.md:3: a block by its margin"),
                             (["```sh", "a"], "page.md:1: this block has no end")):
            with self.assertRaisesRegex(commands.DocumentError, fault):
                self.blocks(*lines)

    def test_all_documents_say_what_their_blocks_are(self):
        found = [path for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/*.md")]) if "build" not in path.parts]
        self.assertGreater(len(found), 10)
        for path in found:
            commands.read(path, ROOT)


class WhatIsFound(Scratch):
    def test_a_false_command_is_named_by_its_line_with_its_last_words(self):
        reader = self.run_page("# Page", "", "```sh", "true", "echo because; exit 7", "echo goes on", "```")
        self.assertEqual(reader.faults, ["page.md:5: exit code 7"])
        self.assertIn("page.md:5: exit code 7: echo because; exit 7\n    because", self.told)
        self.assertEqual(reader.counts.run, 3)

    def test_a_program_that_is_not_there_and_half_a_command(self):
        reader = self.run_page("```sh", "no-such-program", "if true; then", "```")
        self.assertEqual(reader.faults, ["page.md:2: exit code 127", "page.md:3: exit code 2"])

    def test_what_fails_in_the_background_is_named_and_not_waited_for(self):
        with mock.patch.object(run_documents, "GRACE_S", 0.1):
            reader = self.run_page("```sh", "(sleep 0.1; exit 4) &", "sleep 100", "```")
        self.assertEqual(reader.faults, ["page.md:3: did not end", "page.md:2: exit code 4"])

    def test_a_daemon_that_does_not_leave_as_it_should(self):
        page = ["```sh", "PATH=$PWD:$PATH", "poseidon-worker", "sleep 0.2", "```"]
        for code, faults in ((0, []), (5, ["page.md:3: exit code 5"])):
            daemon = self.clone / "poseidon-worker"
            daemon.write_text(f"#!/bin/sh\ntrap 'exit {code}' TERM\nwhile :; do sleep 0.01; done\n", encoding="ascii")
            daemon.chmod(0o755)
            self.assertEqual(self.run_page(*page).faults, faults)

    def test_the_stand_in_for_mpirun_gives_ranks_and_the_first_code_that_is_not_0(self):
        reader = self.run_page("```sh", "mpirun -n 2 sh -c 'exit $OMPI_COMM_WORLD_RANK' : -n 1 true",
                               "mpirun -n 2 true", "```")
        self.assertEqual(reader.faults, ["page.md:2: exit code 1"])

    def test_a_placeholder_and_an_unknown_machine(self):
        reader = self.run_page("```sh", "cat FILE.json", "```")
        self.assertEqual(reader.faults, ["page.md:2: nobody can type FILE.json"])
        reader.hosts = "some"
        reader.read(self.written("```sh", "true  # on node7", "```"))
        self.assertEqual(reader.faults[1:], ["page.md:2: there is no machine node7"])

    def test_each_stand_in_is_in_the_table(self):
        named = [why.partition(":")[0] for _, why in fixtures.STAND_INS]
        self.assertEqual(sorted(path.name for path in fixtures.SHIMS.iterdir()), sorted(named))

    def test_entries_of_tables_that_nothing_is_like(self):
        tables = fixtures.Tables(names=[("^cat", lambda folder: (folder / "name").touch())],
                                 shorter=[("^(sleep)", "0;"), ("^gone", "")],
                                 excluded=[("sudo", "why"), ("never", "why")])
        reader = self.run_page("```sh", "cat name", "sleep 100 || true", "sudo true", "```", tables=tables)
        self.assertEqual((reader.faults, tables.unused()), ([], ["^gone", "never"]))
        self.assertIn("page.md:4: sudo true  [not run: why]", self.told)
        self.assertTrue(any("sleep 100 || true  [" in line and "with 0;" in line for line in self.told))

    def test_programs_that_the_quick_start_has_not_built(self):
        reader = self.run_page("")
        reader.look_for_programs()
        self.assertEqual(reader.faults[0], "scripts/quickstart has not built poseidon-train")
        self.assertEqual(len(reader.faults), 10)


class WhatIsKept(Scratch):
    def test_exports_folders_and_files_are_there_for_the_next_command(self):
        reader = self.run_page("```sh", "export A=~/data", "B='two words'", "mkdir sub && cd sub", "```",
                               "```sh", 'test "$A $B ${PWD##*/}" = "$HOME/data two words sub"', "```")
        self.assertEqual(reader.faults, [])

    def test_without_namespaces_blocks_on_machines_are_left_out_and_said_to_be(self):
        reader = self.run_page("```sh", "false", "false  # on node1", "```")
        self.assertEqual((reader.faults, reader.counts.left_out), ([], 2))
        self.assertIn("page.md:2: false  [not run: there are no network namespaces]", self.told)


if __name__ == "__main__":
    unittest.main()
