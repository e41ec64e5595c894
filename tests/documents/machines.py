"""The machines that documents name: network namespaces with host names that all of them know."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "netlab"))
import lab  # noqa: E402

NAMES = ["node1", "node2", "node3", "node4", "head"]  # the last host is the one at which the user types
PREFIX = "psdd"  # of their namespaces; a netlab with another prefix may be running
LINK_MBIT = 1000

# Each host has a name and a hosts file with the others. Its processes see the same folders as this machine.
FILES = "DOCUMENTS_HOSTS"  # environment variable on a host: the folder of the hosts files
AS_HOST = ["unshare", "--uts", "--mount", "sh", "-c",
           f'hostname "$0" && mount --bind "$1/hosts-$0" /etc/hosts && export {FILES}="$1" && shift && exec "$@"']


def on(name, files, words):
    """The command line that runs `words` on a host."""
    return ["ip", "netns", "exec", f"{PREFIX}{NAMES.index(name)}", *AS_HOST, name, files, *words]


class Machines(lab.Lab):
    def __init__(self, folder):
        lab.PREFIX = PREFIX
        super().__init__(len(NAMES) - 1, LINK_MBIT)
        self.files = str(folder)
        # As in Debian and Ubuntu, a machine's own name is 127.0.1.1.
        for own in NAMES:
            known = ["127.0.0.1 localhost", f"127.0.1.1 {own}"]
            known += [f"{self.address(i)} {name}" for i, name in enumerate(NAMES) if name != own]
            (pathlib.Path(folder) / f"hosts-{own}").write_text("\n".join(known) + "\n", encoding="ascii")

    def on(self, name, words):
        """The command line that runs `words` on a host."""
        return on(name, self.files, words)
