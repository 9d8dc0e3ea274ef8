"""Runs a command where loopback is as fast as a network: in a network namespace of its own.

    sudo .venv/bin/python benchmarks/over_link.py 10gbit .venv/bin/python benchmarks/encryption.py

Tasks of one machine use shared memory, so what TCP costs over bare loopback, where the processors
are all that there is to wait for, is what no cluster pays. Here the kernel's token bucket (`tc`,
tbf) gives loopback a rate, both directions together, and jumbo frames. Needs Linux, root, and ip,
tc and unshare of iproute2 and util-linux; what else runs on the machine notices nothing.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys

MTU = 9000
SET_UP = """\
ip link set lo up
ip link set lo mtu {mtu}
tc qdisc add dev lo root tbf rate {rate} burst 256kb latency 50ms
exec {command}
"""


def main() -> None:
    """Becomes the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rate", help="as tc has it, such as 10gbit")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} of iproute2 and util-linux is not here")
    set_up = SET_UP.format(
        mtu=MTU, rate=shlex.quote(options.rate), command=shlex.join(options.command)
    )
    os.execvp("unshare", ["unshare", "--net", "sh", "-ec", set_up])  # noqa: S606, S607  # as asked


if __name__ == "__main__":
    main()
