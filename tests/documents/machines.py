"""The machines that documents speak of: network namespaces with names of their own, which all of them know."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "netlab"))
import lab  # noqa: E402

NAMES = ["node1", "node2", "node3", "node4", "head"]  # the lab's last host is the one that a person works at
PREFIX = "psdd"  # of their namespaces, beside a netlab that may be running
LINK_MBIT = 1000

# Each host has its name, and a file by which it knows the others; what it runs sees the same folders.
FILES = "DOCUMENTS_HOSTS"  # the folder of these files, in the environment of what runs on a host
AS_HOST = ["unshare", "--uts", "--mount", "sh", "-c",
           f'hostname "$0" && mount --bind "$1/hosts-$0" /etc/hosts && export {FILES}="$1" && shift && exec "$@"']


def on(name, files, words):
    """The command that runs `words` on a host."""
    return ["ip", "netns", "exec", f"{PREFIX}{NAMES.index(name)}", *AS_HOST, name, files, *words]


class Machines(lab.Lab):
    def __init__(self, folder):
        lab.PREFIX = PREFIX
        super().__init__(len(NAMES) - 1, LINK_MBIT)
        self.files = str(folder)
        # As Debian and Ubuntu have it, a machine's own name is 127.0.1.1.
        for own in NAMES:
            known = ["127.0.0.1 localhost", f"127.0.1.1 {own}"]
            known += [f"{self.address(i)} {name}" for i, name in enumerate(NAMES) if name != own]
            (pathlib.Path(folder) / f"hosts-{own}").write_text("\n".join(known) + "\n", encoding="ascii")

    def on(self, name, words):
        """The command that runs `words` on a host."""
        return on(name, self.files, words)
