"""Commands that end with the process that starts them, even if it is killed.

    subprocess.Popen(tied([...]))

runs the command in this module's process, which the kernel is told to end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def tied(command: Sequence[str]) -> list[str]:
    """Returns the command for a child of this thread, which must live as long as the child."""
    return [sys.executable, __file__, str(os.getpid()), *map(str, command)]


if __name__ == "__main__":
    from sparkflow_runtime.parent_process import die_with_parent

    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # no shell is wanted
