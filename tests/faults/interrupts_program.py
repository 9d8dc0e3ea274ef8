"""Run by test_interrupts.py in its own process group, to which it sends SIGINT.

    python interrupts_program.py FOLDER SEED KIND...

Prints a JSON object per kind: how a training of that kind ended, and what was left.
"""

import json
import sys

from support.interrupts import Rounds


def main() -> None:
    rounds = Rounds(sys.argv[1], int(sys.argv[2]))
    for kind in sys.argv[3:]:
        print(json.dumps(rounds.end_one(kind)), flush=True)
    rounds.close()


if __name__ == "__main__":
    main()
