"""The machines that documents speak of: network namespaces with names of their own, which all of them know."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "netlab"))
import lab  # noqa: E402

NAMES = ["node1", "node2", "node3", "node4", "head"]  # the lab's last host is the one that a person works at
PREFIX = "psdd"  # of their namespaces, beside a netlab that may be running
LINK_MBIT = 1000

# A host's name, and the file by which it knows the others, are its own; what it runs sees the same folders.
AS_HOST = ["unshare", "--uts", "--mount", "sh", "-c",
           'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"']


class Machines(lab.Lab):
    def __init__(self, folder):
        lab.PREFIX = PREFIX
        super().__init__(len(NAMES) - 1, LINK_MBIT)
        self.addresses = pathlib.Path(folder) / "hosts"
        known = ["127.0.0.1 localhost", *(f"{self.address(i)} {name}" for i, name in enumerate(NAMES))]
        self.addresses.write_text("\n".join(known) + "\n", encoding="ascii")

    def on(self, name, words):
        """The command that runs `words` on a host."""
        space = f"{lab.PREFIX}{NAMES.index(name)}"
        return ["ip", "netns", "exec", space, *AS_HOST, name, str(self.addresses), *words]
