#!/usr/bin/env python3
"""Tests that documents state the reference results, and that benchmarks write the files of the documents' tables."""
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "netlab")]
for missing in ("numpy", "PIL"):  # bench/loader.py imports them; no test uses them
    sys.modules.setdefault(missing, mock.MagicMock(name=missing, __version__="0"))

import accuracy  # noqa: E402
import busy  # noqa: E402
import churn  # noqa: E402
import convolution  # noqa: E402
import loader  # noqa: E402
import long_link  # noqa: E402
import netlab  # noqa: E402
import record  # noqa: E402
import report  # noqa: E402
import simulation  # noqa: E402
import startup  # noqa: E402
import training  # noqa: E402
import transport  # noqa: E402

MACHINE = {"name": "test-2core", "cpu": "Test", "cores": 2, "memory_gib": 1, "kernel": "1", "compiler": None}


class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "bench" / "results", self.root / "bench" / "results")
        (self.root / "docs").mkdir()
        for name in report.DOCUMENTS:
            shutil.copy(ROOT / name, self.root / name)

    def plant(self, name, old, new):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def test_readme_and_performance_state_the_figures_of_record(self):
        self.assertEqual(report.check(ROOT), [])

    def test_a_cell_that_differs_is_named_by_its_line(self):
        rows = [number for number, line in enumerate((self.root / "docs/performance.md").read_text().splitlines(), 1)
                if line.startswith("| resnet50 | 200 |")]
        self.plant("docs/performance.md", "| resnet50 | 200 |", "| resnet50 | 201 |")
        fault, = report.check(self.root)
        self.assertRegex(fault, rf'^docs/performance.md:{rows[0]}: expected "\| resnet50 \| 200 .*", got ".* 201 ')

    def test_a_figure_in_a_sentence_that_differs(self):
        text = (self.root / "README.md").read_text(encoding="utf-8")
        stated = report.SENTENCES[0].pattern.search(text)[2]
        self.plant("README.md", f"to {stated} times", "to 99.9 times")
        fault, = report.check(self.root)
        self.assertRegex(fault, r"^README.md:\d+: expected \".*\", got \".*99\.9 times")

    def test_results_that_differ_are_found_and_a_rewrite_mends_it(self):
        path, = self.root.glob("bench/results/*/netlab.json")
        content = json.loads(path.read_text(encoding="utf-8"))
        content["rows"][0]["times_as_fast"].update(median=1000.25, least=990, greatest=1010.5, rounds=3)
        path.write_text(record.text_of(content), encoding="utf-8")
        faults = report.check(self.root)
        self.assertTrue(any("**1,000.25** (990.00 to 1,010.50)" in fault for fault in faults))
        self.assertTrue(any(fault.startswith("README.md") and "to 1000.2 times" in fault for fault in faults))
        for name, text in report.renewed(self.root)[0].items():
            (self.root / name).write_text(text, encoding="utf-8")
        self.assertEqual(report.check(self.root), [])

    def test_a_missing_file_and_a_missing_sentence(self):
        path, = self.root.glob("bench/results/*/busy.json")
        path.unlink()
        self.plant("README.md", "times as fast as PyTorch on the same cores", "times as good as PyTorch")
        faults = report.check(self.root)
        self.assertEqual(len(faults), 2)
        self.assertRegex(faults[0], r"^docs/performance.md:\d+: bench/results/.*/busy.json is missing$")
        self.assertRegex(faults[1], r'^README.md: the sentence "It is \{\} to .*" is missing$')


class Selections(unittest.TestCase):
    """Words of a comment that select rows and columns."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        columns = [record.column("network", "network"), record.column("threads", "threads", 0),
                   record.column("ms", "ms", 1, spread=True),
                   record.column("ratio", "ratio", 2, bold=True, spread=True)]
        rows = [{"network": network, "threads": threads, "ms": record.figure([[9], [11 * threads]]),
                 "ratio": record.figure([[threads], [threads + 1]])}
                for network in ("lenet", "vgg11") for threads in (1, 2)]
        path = pathlib.Path(folder.name) / "m" / "c.json"
        path.parent.mkdir()
        path.write_text(record.text_of({"claim": "c", "command": "measure", "machine": MACHINE, "commit": "abc",
                                        "about": "training", "columns": columns, "rows": rows}), encoding="utf-8")
        self.results = report.Results(pathlib.Path(folder.name))

    def block(self, words):
        head = f"<!-- {words} -->\n"
        text = report.renewed_tables(f"{head}old\n<!-- end -->\n", self.results)
        return text.removeprefix(head).splitlines()[:-1]

    def test_rows_columns_and_spreads(self):
        self.assertEqual(self.block("table m/c threads=2 network=vgg11,lenet\ncolumns=ratio,network,ms spread=ratio"), [
            "| ratio | network | ms |", "|---:|---|---:|", "| **2.50** (2.00 to 3.00) | lenet | 15.5 |",
            "| **2.50** (2.00 to 3.00) | vgg11 | 15.5 |", "", "2-core Test, commit abc, 2 rounds: `measure`."])

    def test_a_list(self):
        self.assertEqual(self.block("list m/c threads=1 columns=network,ratio spread=network"),
                         ["lenet **1.50**, vgg11 **1.50**", "", "2-core Test, commit abc, 2 rounds: `measure`."])

    def test_a_summary_without_a_headline(self):
        self.assertEqual(self.block("summary m/c"),
                         ["* training: 1.50 to 2.50 ratio (`measure`; Test, abc, 2 rounds)"])

    def test_words_that_select_nothing(self):
        for words, message in (("columns=network,speed", '1: c has no column "speed"'),
                               ("spread=speed", '1: c has no column "speed"'), ("threads=3", "1: c has no such row")):
            with self.assertRaises(report.ReportError) as raised:
                self.block(f"table m/c {words}")
            self.assertEqual(str(raised.exception), message)

    def test_commits_of_rows(self):
        self.assertEqual(report.commits({"commit": "c", "rows": [{"commit": "b"}, {"commit": "a"}, {"commit": "b"}]}),
                         "commits a and b")


class Cells(unittest.TestCase):
    def shown(self, value, **settings):
        return record.cell(record.column("key", "title", **settings), value)

    def test_what_stands_in_a_cell(self):
        figure = {"median": 1234.567, "least": 1200, "greatest": 1300, "rounds": 3}
        self.assertEqual(self.shown("text"), "text")
        self.assertEqual(self.shown(None, digits=1), "-")
        self.assertEqual(self.shown(3, digits=0), "3")
        self.assertEqual(self.shown(figure, digits=1), "1,234.6")
        self.assertEqual(self.shown(figure, digits=0, bold=True, spread=True), "**1,235** (1,200 to 1,300)")
        self.assertEqual(self.shown({**figure, "least": None}, digits=0, spread=True), "1,235 (at most 1,300)")
        self.assertEqual(self.shown({**figure, "median": None}, digits=0, spread=True), "1,200 to 1,300")
        self.assertEqual(self.shown({**figure, "rounds": 1}, digits=0, spread=True), "1,235")

    def test_a_figure_is_the_median_of_all_with_the_extremes_of_the_rounds(self):
        self.assertEqual(record.figure([[1, 2, 9], [5, 6, 7], [4, 4, 4]]),
                         {"median": 4, "least": 2, "greatest": 6, "rounds": 3})


class Circumstances(unittest.TestCase):
    def test_commands_do_not_say_where_things_are(self):
        program = str(ROOT / "bench" / "training.py")
        self.assertEqual(record.command([program, "--python=/x/y", "--build", "/b", "--rounds", "3", "--record", "/a"]),
                         "python3 bench/training.py --python PYTHON_WITH_TORCH --rounds 3")
        self.assertEqual(record.command([program, "--variants", "auto;auto, bf16"], sudo=True),
                         "sudo python3 bench/training.py --variants 'auto;auto, bf16'")

    def test_processors_and_their_short_names(self):
        for model, vendor, family, number, name, short in (
                ("AMD EPYC 9B14 96-Core Processor", "AuthenticAMD", 25, 17, "AMD EPYC 9B14", "epyc-9b14-2core"),
                ("AMD EPYC", "AuthenticAMD", 26, 2, "AMD EPYC (Zen 5)", "epyc-zen5-2core"),
                ("Intel(R) Xeon(R) Processor @ 2.50GHz", "GenuineIntel", 6, 143, "Intel Xeon (Sapphire Rapids)",
                 "xeon-sapphire-rapids-2core"),
                ("Other", "Other", 1, 2, "Other (family 1, model 2)", "other-family-1-model-2-2core")):
            about = {"model name": model, "vendor_id": vendor, "cpu family": str(family), "model": str(number)}
            self.assertEqual(record.processor(about), name)
            self.assertEqual(record.short_name(name, 2), short)

    def test_this_machine_has_a_name_and_the_clone_a_commit(self):
        self.assertRegex(record.machine()["name"], r"^[a-z0-9]+(-[a-z0-9]+)*-\d+core$")
        self.assertNotIn(record.platform.node(), json.dumps(record.machine()))
        if shutil.which("git") and (ROOT / ".git").exists():
            self.assertRegex(record.commit(), r"^[0-9a-f]{7,}\+?$")


class Benchmarks(unittest.TestCase):
    """Runs each benchmark with given measurements."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, value in (("machine", MACHINE), ("commit", "abc1234")):
            self.given(record, name, value)

    def given(self, module, name, value):
        patch = mock.patch.object(module, name, side_effect=value if callable(value) else None, return_value=value)
        self.addCleanup(patch.stop)
        return patch.start()

    def recorded(self, module, *words, claim):
        """The results file that a benchmark writes. The table that it prints must be that of the documents."""
        arguments = [module.__file__, *words, "--record", str(self.folder)]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(io.StringIO()) as printed:
            module.main()
        name = f"{MACHINE['name']}/{claim}"
        content = report.Results(self.folder).file(name)
        lines = report.table(report.Results(self.folder), [name])
        for line in lines[:lines.index("")]:
            self.assertIn(line, printed.getvalue())
        self.assertEqual((content["commit"], content["machine"]), ("abc1234", MACHINE))
        return content

    def programs(self):
        own, peer = iter([[10, 20, 30], [40, 50, 60]] * 9), iter([[200, 100], [100, 300], [400, 400], [100, 100]] * 9)
        self.given(training, "poseidon", lambda *_: (next(own), 50.4))
        self.given(training, "pytorch", lambda *_: (next(peer), 100.2, "2.0"))

    def test_training_of_the_zoo(self):
        self.programs()
        content = self.recorded(training, "--zoo", "--rounds", "1", "--threads", "2", "--networks", "lenet,vgg19-22k",
                                "--claim", "training-zoo", claim="training-zoo")
        self.assertEqual([(row["network"], row["batch"]) for row in content["rows"]], [("lenet", 8), ("vgg19-22k", 8)])

    def test_the_zoo_is_every_network_with_data_that_fits_it(self):
        networks = {file.stem: json.loads(file.read_text()) for file in (ROOT / "configs" / "networks").glob("*.json")}
        self.assertEqual({case[0] for case in training.ZOO}, set(networks))
        for name, classes in (("googlenet", 1000), ("lenet-siamese", 2), ("vgg19-22k", 21841)):
            _, network, _, data = training.network_of(name)
            self.assertTrue(network.endswith(f"configs/networks/{name}.json"))
            data = json.loads(data.removeprefix("data.train="))
            self.assertEqual((data["classes"], data["channels"]), (classes, networks[name]["input"]["channels"]))

    def test_training(self):
        self.programs()
        content = self.recorded(training, "--rounds", "2", "--threads", "1", "--networks", "alexnet", claim="training")
        row, = content["rows"]
        self.assertEqual(content["command"], "python3 bench/training.py --rounds 2 --threads 1 --networks alexnet")
        self.assertEqual(content["peer"], "PyTorch 2.0")
        self.assertEqual(row["poseidon_ms"], {"median": 35, "least": 20, "greatest": 50, "rounds": 2})
        self.assertEqual(row["nchw_ms"]["median"], 300)
        self.assertEqual(row["channels_last_ms"]["median"], 100)
        self.assertEqual(row["times_as_fast"], {"median": 2.8571, "least": 2, "greatest": 7.5, "rounds": 2})
        self.assertEqual((row["peer_mib"], row["poseidon_mib"]), (100, 50))

    def test_busy(self):
        self.programs()
        self.given(busy, "competitors", lambda _: contextlib.nullcontext())
        content = self.recorded(busy, "--rounds", "2", "--networks", "lenet", claim="busy")
        self.assertEqual([row["load"] for row in content["rows"]], [0, 1, 2])
        self.assertEqual(content["rows"][0]["alone_rate"]["rounds"], 2)

    def test_startup(self):
        done = types.SimpleNamespace(returncode=0, stderr="")
        with mock.patch.object(subprocess, "run", return_value=done):
            content = self.recorded(startup, "--rounds", "3", claim="startup")
        self.assertEqual(content["rows"][0]["seconds"]["rounds"], 3)
        lines = report.summary(report.Results(self.folder), ["test-2core/startup"])
        self.assertRegex(" ".join(lines), r"^\* LeNet, .* seconds \(`python3 bench/startup.py --rounds 3`;")

    def test_loader(self):
        rates = iter([100.0, 200.0, 400.0, 300.0, 1e6, 1e5])
        self.given(loader, "read_photographs", [b""])
        self.given(loader, "pillow_rate", lambda *_: next(rates))
        self.given(loader, "our_rate", lambda *_: next(rates))
        content = self.recorded(loader, "--rounds", "1", "--program", "x", "--photographs", "y", claim="loader")
        self.assertEqual(content["command"], "python3 bench/loader.py --rounds 1 --photographs PHOTOGRAPHS.tar")
        self.assertEqual(content["rows"][content["headline"]]["ratio"]["median"], 4)

    def test_transport(self):
        self.given(transport.shutil, "which", "iperf3")
        self.given(transport, "peer_version", "iperf 3")
        self.given(transport, "peer_round", {"rate": 2.0, "worker": 0.1, "shard": 0.2})
        ours = iter([1.0, 9.0, 4.0, 9.0] * 2)
        self.given(transport, "our_round", lambda *_: {"rate": next(ours), "worker": 0.1, "shard": 0.2})
        content = self.recorded(transport, "--rounds", "2", claim="transport")
        self.assertEqual([row["what"] for row in content["rows"]],
                         ["iperf3 --bidir -l 1M", "iperf3 --bidir -l 1M -C reno", "Poseidon", "Poseidon, no secret"])
        self.assertEqual(content["rows"][0]["ratio"], {"median": 1.25, "least": 0.5, "greatest": 2, "rounds": 2})
        self.given(transport.lab, "Lab", lambda *_: contextlib.nullcontext(mock.MagicMock()))
        content = self.recorded(transport, "--rounds", "1", "--rate", "1000", "--claim", "link", claim="link")
        self.assertEqual(content["command"], "sudo python3 bench/transport.py --rounds 1 --rate 1000")
        self.assertEqual(content["rows"][0]["link"]["median"], 800)

    def test_long_link(self):
        for name, value in (("shutil.which", "iperf3"), ("lab.need_root", None), ("transport.peer_version", "iperf 3")):
            owner, name = name.split(".")
            self.given(getattr(long_link, owner), name, value)
        rates = iter([40, 60, 80, 100])
        self.given(long_link, "measure", lambda *_: {"ours": next(rates), "peer": 90})
        content = self.recorded(long_link, "--rounds", "2", "--rate", "200", "--controls", "cubic,bbr",
                                claim="long-link")
        self.assertEqual([row["control"] for row in content["rows"]], ["cubic", "bbr"])
        self.assertEqual(content["rows"][1]["ours_link"], {"median": 40, "least": 30, "greatest": 50, "rounds": 2})

    def test_netlab(self):
        self.given(netlab, "Lab", lambda *_: contextlib.nullcontext(mock.MagicMock()))
        for name, value in (("link_rate", 955.4), ("layer_times", "times"), ("ddp_steps", ([300, 500], "2.0"))):
            self.given(netlab, name, value)
        steps, bounds = iter([[100, 110], [200, 220]]), iter([90, 180])
        self.given(netlab, "poseidon_steps", lambda *_: next(steps))
        self.given(netlab, "bound_ms", lambda *_: next(bounds))
        content = self.recorded(netlab, "--rates", "1000", "--networks", "vgg11", "--variants", "auto",
                                "--rounds", "2", "--python", "p", claim="netlab")
        row, = content["rows"]
        self.assertEqual(content["command"], "sudo python3 bench/netlab/netlab.py --rates 1000 --networks vgg11 "
                                             "--variants auto --rounds 2 --python PYTHON_WITH_TORCH")
        self.assertEqual(row["step_ms"], {"median": 155, "least": 105, "greatest": 210, "rounds": 2})
        self.assertEqual(row["times_as_fast"], {"median": 2.5806, "least": 1.9048, "greatest": 3.8095, "rounds": 2})

    def test_convolution_reads_what_the_program_prints(self):
        printed = ("alexnet, batch 32, 1 threads; peak 118 GFLOP/s\n\n"
                   "| convolution | algorithms (forward, data, weight) | forward GFLOP/s | % of peak | backward GFLOP/s "
                   "| % of peak |\n|---|---|---:|---:|---:|---:|\n"
                   "| conv1 | direct, -, direct | 112 | 95 | 99 | 84 |\n| a.conv2 | winograd, direct, winograd | 235 | "
                   "200 | 211 | 179 |\n\nAll convolutions: 200 GFLOP/s, 170 % of peak.\n")
        self.given(training, "run", printed)
        content = self.recorded(convolution, "--networks", "alexnet", "--rounds", "2", claim="convolution")
        row, = content["rows"]
        self.assertEqual((row["peak"]["median"], row["percent"]["median"], row["percent"]["rounds"]), (118, 170, 2))
        self.assertEqual(row["convolutions"], [["conv1", "direct, -, direct", 112, 95, 99, 84],
                                               ["a.conv2", "winograd, direct, winograd", 235, 200, 211, 179]])

    def test_simulation_reads_what_the_program_prints(self):
        printed = (" workers    steps     messages    seconds     messages/s  simulated s\n"
                   "       2       10         1000       0.01         150000         0.90\n"
                   "       2       10         1000       0.01         130000         0.90\n"
                   "       2       10         1000       0.01         190000         0.90\n")
        self.given(training, "run", printed)
        content = self.recorded(simulation, "--workers", "2", claim="simulation")
        self.assertEqual(content["rows"][0]["rate"],
                         {"median": 150000, "least": 130000, "greatest": 190000, "rounds": 3})

    def test_churn(self):
        self.given(churn.replay, "layer_times", "times")
        counts = {"steps": 9, "killed": 0, "losses": 0, "joins": 0, "replayed": 0, "pause": 0, "pauses": 0}
        disturbed = {**counts, "killed": 3, "losses": 3, "joins": 3, "pause": 0.5, "pauses": 2.5}
        runs = iter([{**counts, "minutes": 1.01234567, "images": 2000.0}, {**disturbed, "minutes": 1.0, "images": 1800.0},
                     {**counts, "minutes": 1.0, "images": 3000.0}, {**disturbed, "minutes": 1.0, "images": 2400.0}])
        self.given(churn, "measure", lambda *_: next(runs))
        content = self.recorded(churn, "--workers", "4", "--rounds", "2", claim="churn")
        self.assertEqual(content["command"], "python3 bench/churn.py --workers 4 --rounds 2")
        self.assertEqual(content["rows"][1]["part"], {"median": 0.85, "least": 0.8, "greatest": 0.9, "rounds": 2})
        self.assertEqual([content["rows"][1][key] for key in ("killed", "pause", "pauses")], [6, 0.5, 5])
        self.assertEqual(content["rows"][0]["minutes"], 2.0123)

    def test_churn_in_which_not_all_are_replaced(self):
        self.given(churn, "measure", {"images": 1.0, "killed": 3, "losses": 3, "joins": 2, "pause": 0})
        with self.assertRaisesRegex(SystemExit, "expected 3 failed members and at least as many joiners, got 3 and 2"):
            self.recorded(churn, "--device", "cpu", claim="churn")

    def test_accuracy(self):
        def run(words, **_):
            output = pathlib.Path(words[words.index("--output") + 1])
            output.mkdir()
            (output / "summary.json").write_text(json.dumps(
                {"test_top1": 0.9902, "steps": 10000, "samples_per_second": 4071.2, "wall_seconds": 174.4}))
            (output / "config.json").write_text(json.dumps({"data": {"global_batch": 64}}))

        self.given(training, "run", run)
        content = self.recorded(accuracy, "configs/lenet-mnist.json", "--workers", "2", claim="accuracy-lenet-mnist")
        self.assertEqual(content["rows"][0]["job"], "`configs/lenet-mnist.json --workers 2`")
        self.assertEqual(content["rows"][0]["steps"], "10,000 x 64")


if __name__ == "__main__":
    unittest.main()
