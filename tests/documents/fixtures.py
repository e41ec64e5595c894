"""Fixtures for the documents' commands: input files, options that shorten long commands, and commands that do not run.

Each table has a pattern that is searched in a command's words. A pattern that matches no command of any document is a
fault.
"""
import gzip
import json
import math
import pathlib
import random
import re
import shutil
import struct
import tarfile

SHIMS = pathlib.Path(__file__).resolve().parent / "shims"


def mnist(folder):
    """MNIST's four files with a few random images, in the reader's ~/data."""
    target = folder.parent / "home" / "data" / "mnist"
    target.mkdir(parents=True)
    for part, count in (("train", 320), ("t10k", 100)):
        pixels, labels = random.Random(1).randbytes(count * 28 * 28), bytes(i % 10 for i in range(count))
        images = struct.pack(">IIII", 0x803, count, 28, 28) + pixels
        (target / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
        (target / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">II", 0x801, count) + labels))


def cifar_archive(folder):
    """Class folders with random images of 32 x 32 pixels, as PPM, which Python can write without a library."""
    numbers, tree = random.Random(2), folder.parent / "cifar"
    for part, count in (("train", 20), ("test", 5)):
        for label in range(10):
            place = tree / part / f"class{label}"
            place.mkdir(parents=True)
            for i in range(count):
                (place / f"{i:04}.ppm").write_bytes(b"P6 32 32 255\n" + numbers.randbytes(32 * 32 * 3))
    with tarfile.open(folder / "cifar10.tar.gz", "w:gz") as archive:
        archive.add(tree, ".")


def picture(folder, suffix):
    return folder / "tests" / "fuzz" / "corpus" / "image" / f"colour.{suffix}"


def photographs(folder):
    for part in ("train", "val"):
        for label in ("cats", "dogs"):
            place = folder / "photos" / part / label
            place.mkdir(parents=True)
            for i in range(4):
                for suffix in ("jpg", "png"):
                    shutil.copy(picture(folder, suffix), place / f"{i}.{suffix}")


def job_of_photographs(folder):
    """The job of README.md: configs/resnet18-images.json with the packed sets, and a network of two classes."""
    configs = folder / "configs"
    network = json.loads((configs / "networks" / "resnet18.json").read_text(encoding="utf-8"))
    next(layer for layer in network["layers"] if layer["type"] == "linear")["outputs"] = 2
    (folder / "my-network.json").write_text(json.dumps(network), encoding="utf-8")
    job = json.loads((configs / "resnet18-images.json").read_text(encoding="utf-8"))
    job["network"] = "my-network.json"
    job["data"]["batch_per_worker"] = 4
    for part, name in (("train", "train"), ("test", "val")):
        job["data"][part].update(type="records", path="${POSEIDON_DATA}/photos/" + name)
    (folder / "my-job.json").write_text(json.dumps(job), encoding="utf-8")


def later_checkpoint(folder):
    """The weights of the short run, under the file name of the long run in the document."""
    checkpoints = folder / "runs" / "photos" / "checkpoints"
    for weights in list(checkpoints.glob("step-*.safetensors")):
        shutil.copy(weights, checkpoints / "step-9000.safetensors")


def caffe_files(folder):
    """A Caffe network, a solver, and the weights of its first layer."""
    networks = folder / "tests" / "importer" / "networks"
    shutil.copy(networks / "caffenet.prototxt", folder / "train_val.prototxt")
    shutil.copy(networks / "lenet_solver.prototxt", folder / "solver.prototxt")

    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    def field(number, content):
        return varint(number << 3 | 2) + varint(len(content)) + content

    def blob(*extents):
        count = 1
        for extent in extents:
            count *= extent
        return field(7, field(7, field(1, b"".join(map(varint, extents)))) + field(5, bytes(4 * count)))

    layer = field(1, b"conv1") + blob(96, 3, 11, 11) + blob(96)
    (folder / "net.caffemodel").write_bytes(field(100, layer))


def state_dict(folder):
    """A state dict of torchvision's resnet18 with zero weights."""
    golden = folder / "tests" / "reference" / "golden" / "torchvision" / "resnet18.json"
    header, size = {}, 0
    for name, shape in json.loads(golden.read_text(encoding="utf-8"))["tensors"]:
        counts = name.endswith("num_batches_tracked")
        begin, size = size, size + math.prod(shape) * (8 if counts else 4)
        header[name] = {"dtype": "I64" if counts else "F32", "shape": shape, "data_offsets": [begin, size]}
    text = json.dumps(header).encode()
    (folder / "resnet18.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


# File names that documents use, and the function that makes each file in the folder where commands run.
NAMES = [
    (r"configs/lenet-mnist\.json", mnist),
    (r"\bcifar10\.tar\.gz\b", cifar_archive),
    (r"\bpack photos\b", photographs),
    (r"\bmy-job\.json\b", job_of_photographs),
    (r"step-9000\.safetensors", later_checkpoint),
    (r"\btrain_val\.prototxt\b", caffe_files),
    (r"\bresnet18\.safetensors\b", state_dict),
    (r"\bcat\.jpg\b", lambda folder: shutil.copy(picture(folder, "jpg"), folder / "cat.jpg")),
    (r"\bdog\.png\b", lambda folder: shutil.copy(picture(folder, "png"), folder / "dog.png")),
]

# Long commands, and the options that shorten them, inserted after the first group. The first match counts.
SHORTER = [
    (r"^(\./scripts/quickstart)", "--max-steps 300"),
    (r"^(poseidon-train) my-job\.json", "--max-steps 2"),
    (r"^(poseidon-train) .*device\.choices=", "--max-steps 2"),
    (r"^(poseidon-train) .*--tune", "--set data.batch_per_worker=2"),
    (r"^(poseidon-train) .*--time\b", "--set data.batch_per_worker=2"),
    (r"^(poseidon-train) --resume .*--external", "--max-steps 60"),
    (r"^(poseidon-train) --resume \S+(?: --workers \d+)?$", "--max-steps 40"),
    (r"^(poseidon-train) (?!.*--(help|plan|test|check|classify|extract)\b)", "--max-steps 20"),
    (r"^(python3 bench/startup\.py)", "--rounds 1"),
    (r"^(python3 bench/transport\.py)", "--rounds 1 --seconds 1"),
    (r"^(python3 bench/convolution\.py)", "--networks cifar10_quick --rounds 1 --repeats 1"),
    (r"^(python3 bench/simulation\.py)", "--workers 4 --steps 2"),
    (r"^(python3 bench/accuracy\.py \S+)", "--max-steps 20"),
    (r"^(python3 bench/recovery\.py \S+)", "--max-steps 60 --every 10 --threads 1"),
    (r"^(python3 bench/churn\.py)", "--workers 3 --servers 2 --minutes 0.2 --every 5"),
]

# Commands that do not run, and the reason.
EXCLUDED = [
    (r"^\./scripts/test\b", "it runs all tests, as a stage of .ci/run does"),
    (r"^python3 bench/(training|busy|geometries)\.py", "it needs PyTorch, which the checks do not install"),
    (r"^python3 bench/loader\.py", "it needs Pillow, which the checks do not install"),
    (r"^sudo\b", "it asks for a password"),
    (r"^podman\b", "it needs a container engine"),
    (r"^sbatch\b", "it needs Slurm; the test \"jobs by slurm\" runs it"),
    (r"\bopenmpi\.sh\b", "it needs Open MPI; the test \"jobs by mpirun\" runs it"),
    (r"\bspot\.sh\b", "it needs machines that ssh reaches; the test \"jobs by spot\" runs it"),
]

# Commands for which a program of shims/ is first in PATH: the name of the program, and the reason.
STAND_INS = [
    ("mpirun", "mpirun: starts processes with their ranks; Open MPI is not installed for the checks"),
    ("--hosts", "ssh: runs the command on the machine itself; the machines have no sshd"),
]


class Tables:
    """The tables above. Records which entries were used."""

    def __init__(self, names=(), shorter=(), excluded=(), stand_ins=()):
        self.names, self.shorter, self.excluded, self.stand_ins = names, shorter, excluded, stand_ins
        self.used = set()

    def find(self, table, words):
        for pattern, value in table:
            found = re.search(pattern, words)
            if found:
                self.used.add(pattern)
                return found, value
        return None, None

    def why_not(self, command):
        """The reason why a command does not run; None if it runs."""
        return self.find(self.excluded, command.words)[1]

    def shortened(self, command):
        """A command's text, and the options that were inserted."""
        found, words = self.find(self.shorter, command.words)
        if not found:
            return command.text, ""
        program = found[1]
        return command.text.replace(program, f"{program} {words}", 1), words

    def make_names(self, command, folder):
        """Makes the files that this command is the first to use."""
        for pattern, make in self.names:
            if pattern not in self.used and self.find([(pattern, make)], command.words)[0]:
                make(folder)

    def stand_in(self, command):
        """The reason why a shim replaces a program of the command; "" if none does."""
        return self.find(self.stand_ins, command.words)[1] or ""

    def unused(self):
        tables = (self.names, self.shorter, self.excluded, self.stand_ins)
        return [pattern for table in tables for pattern, _ in table if pattern not in self.used]


def project_tables():
    return Tables(NAMES, SHORTER, EXCLUDED, STAND_INS)
