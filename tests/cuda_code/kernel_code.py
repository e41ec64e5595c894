"""Reads the machine code of kernels: that for one compute capability, in a library with GPU code.

The library is an ELF file. Its section .nv_fatbin is a sequence of containers. Each contains the code of one source for
several architectures, as ELF files. NVIDIA's cuobjdump shows the same code (check_code.py --beside compares the two),
but few installations have it. The code is not compressed, because nvcc is called with --compress-mode=none.
"""
import dataclasses
import hashlib
import pathlib
import struct
import subprocess
import sys

CONTAINER = 0xBA55ED50
ELF_KIND = 2
# Attributes of a kernel in .nv.info, and the flag of a kernel's entry symbol.
FRAME_BYTES, REGISTERS = 0x11, 0x2F
KERNEL_SYMBOL = 0x10
INSTRUCTION_BYTES = 16
# The lowest 12 bits of an instruction. In loads and stores, bits 73 to 75 are the size: 6 for 16 bytes.
LOAD_GLOBAL, STORE_GLOBAL, LOAD_LOCAL, STORE_LOCAL = 0x981, 0x986, 0x983, 0x387
BRANCH, ADD_IMMEDIATE = 0x947, 0x810
ROUND_TO_BF16 = 0x03E  # F2FP, in any form: the lowest 9 bits
WIDE = 6


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str  # C++ name without namespaces
    symbol: str
    registers: int
    shared_bytes: int
    frame_bytes: int  # stack frame in local memory
    local_accesses: int
    wide_loads: int
    wide_stores: int
    loads_in_flight: int  # most global loads that a loop issues before it waits for one of them
    rounds_to_bf16: int  # 1: contains the rounding instruction, F2FP
    integer_roundings: int  # additions of 0x7FFF: integer code uses them to round to bf16
    code: str  # hash of its instructions and its resource usage


class Elf:
    """The sections of a 64-bit little-endian ELF file at offset `begin`."""

    def __init__(self, data, begin=0):
        self.data, self.begin = data, begin
        table, = struct.unpack_from("<Q", data, begin + 0x28)
        size, count, names = struct.unpack_from("<HHH", data, begin + 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, begin + table + size * i) for i in range(count)]
        strings = headers[names][4]
        self.sections = {self.string(strings + header[0]): header for header in headers}
        self.headers = headers

    def string(self, at):
        at += self.begin
        return self.data[at:self.data.index(b"\0", at)].decode()

    def bytes_of(self, name):
        header = self.sections[name]
        return self.data[self.begin + header[4]:self.begin + header[4] + header[5]]

    def symbols(self):
        """(index, name, other) of each symbol."""
        header = self.sections[".symtab"]
        strings = self.headers[header[6]][4]
        for index in range(header[5] // 24):
            name, _, other, *_ = struct.unpack_from("<IBBHQQ", self.data, self.begin + header[4] + 24 * index)
            yield index, self.string(strings + name), other

    def attributes(self, attribute):
        """Values of one attribute of .nv.info, by symbol index."""
        info, at, values = self.bytes_of(".nv.info"), 0, {}
        while at < len(info):
            form, kind, value = struct.unpack_from("<BBH", info, at)
            at += 4
            if form == 4:  # `value` is a size
                if kind == attribute:
                    symbol, number = struct.unpack_from("<II", info, at)
                    values[symbol] = number
                at += value
        return values


def cubins(library, capability):
    """The ELF files for a compute capability (90 for 9.0)."""
    data = pathlib.Path(library).read_bytes()
    if ".nv_fatbin" not in (elf := Elf(data)).sections:
        sys.exit(f"{library}: expected GPU code, found none")
    rest = elf.bytes_of(".nv_fatbin")
    at = 0
    while at + 16 <= len(rest):
        magic, _, header, size = struct.unpack_from("<IHHQ", rest, at)
        if magic != CONTAINER:
            at += 8  # between containers
            continue
        at += header
        end = at + size
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", rest, at)
            architecture, = struct.unpack_from("<I", rest, at + 28)
            if kind == ELF_KIND and architecture == capability:
                if rest[at + header:at + header + 4] != b"\x7fELF":
                    sys.exit(f"{library}: expected GPU code that is not packed: nvcc --compress-mode=none")
                yield Elf(rest, at + header)
            at += header + size


@dataclasses.dataclass(frozen=True)
class Instruction:
    operation: int
    size: int  # of loads and stores
    immediate: int
    target: int  # of branches: index of the instruction after which the code continues
    sets: int  # the barrier that is released when the result has arrived; 7: none
    awaits: int  # bit b: waits for barrier b


def instructions(code):
    found = []
    for index, (low, high) in enumerate(struct.iter_unpack("<QQ", code)):
        immediate = low >> 32
        words = (immediate >> 2) - (1 << 30 if immediate >> 31 else 0) << 8 | low >> 16 & 0xFF
        found.append(Instruction(operation=low & 0xFFF, size=high >> 9 & 7, immediate=immediate,
                                 target=index + words * 4 // INSTRUCTION_BYTES, sets=high >> 46 & 7,
                                 awaits=high >> 52 & 0x3F))
    return found


def count(found, operation, size=None):
    return sum(1 for each in found if each.operation == operation and size in (None, each.size))


def most_in_flight(found):
    """The most global loads whose results are pending at once, in code without branches."""
    most, pending = 0, []
    for each in found:
        pending = [barrier for barrier in pending if not each.awaits >> barrier & 1]
        if each.operation == LOAD_GLOBAL:
            pending.append(each.sets)
            most = max(most, len(pending))
    return most


def loads_in_flight(found):
    """The largest most_in_flight() of a loop, 0 without loops."""
    return max((most_in_flight(found[each.target + 1:index]) for index, each in enumerate(found)
                if each.operation == BRANCH and each.target < index - 1), default=0)


def short_name(demangled):
    """The kernel in "void run_kernel<Kernel>(Kernel)", without the project's namespaces."""
    begin = demangled.find("run_kernel<")
    if begin < 0:
        return demangled
    begin = at = begin + len("run_kernel<")
    depth = 1
    while depth:
        depth += {"<": 1, ">": -1}.get(demangled[at], 0)
        at += 1
    name = demangled[begin:at - 1].strip()
    for gone in ("poseidon::layers::cuda::", "poseidon::cuda::", "poseidon::", "(anonymous namespace)::"):
        name = name.replace(gone, "")
    return name.replace("> >", ">>").replace("> >", ">>")


def demangled(symbols):
    output = subprocess.run(["c++filt"], input="\n".join(symbols), check=True, capture_output=True, text=True).stdout
    return dict(zip(symbols, output.splitlines()))


def kernels_of(elf):
    registers, frames = elf.attributes(REGISTERS), elf.attributes(FRAME_BYTES)
    for index, symbol, other in elf.symbols():
        if not other & KERNEL_SYMBOL or f".text.{symbol}" not in elf.sections:
            continue
        code = elf.bytes_of(f".text.{symbol}")
        shared = elf.sections.get(f".nv.shared.{symbol}")
        shared_bytes = shared[5] if shared else 0
        found = instructions(code)
        digest = hashlib.sha256(code + struct.pack("<II", registers[index], shared_bytes))
        yield Kernel(symbol, symbol, registers[index], shared_bytes, frames.get(index, 0),
                     count(found, LOAD_LOCAL) + count(found, STORE_LOCAL), count(found, LOAD_GLOBAL, WIDE),
                     count(found, STORE_GLOBAL, WIDE), loads_in_flight(found),
                     int(any(each.operation & 0x1FF == ROUND_TO_BF16 for each in found)),
                     sum(each.operation == ADD_IMMEDIATE and each.immediate == 0x7FFF for each in found),
                     digest.hexdigest()[:32])


def read_kernels(library, capability=90):
    """All kernels for a compute capability, by name. Equal code in two sources is one kernel."""
    found = [kernel for elf in cubins(library, capability) for kernel in kernels_of(elf)]
    names = demangled([kernel.symbol for kernel in found])
    kernels = {}
    for kernel in found:
        kernel = dataclasses.replace(kernel, name=short_name(names[kernel.symbol]))
        other = kernels.setdefault(kernel.name, kernel)
        if other.code != kernel.code:
            sys.exit(f"{library}: two kernels are called {kernel.name} and differ: rename one")
    return dict(sorted(kernels.items()))
