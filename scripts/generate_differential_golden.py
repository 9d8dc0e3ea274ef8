"""Writes tests/golden/differential/<family>.json: TensorFlow 1's results for lines of Python.

Run with a Python that has TensorFlow; `tests/sparkflow/test_differential.py` replays the files:

    /work/venvs/oracle/bin/python scripts/generate_differential_golden.py linalg strings

Families with layers or RNN cells also need `tf_keras` and TF_USE_LEGACY_KERAS=1.

A family is a module in `scripts/differential/` with

- `PREAMBLE`: statements run first in a fresh graph, with `tf` and `np` in scope;
- `EXPRESSIONS`: one expression a line, or several lines that end with one after a line `---`.
  The value is a tensor, operation, SparseTensor, IndexedSlices, or nested lists, tuples and
  dictionaries of those; or anything whose `repr` is compared.
- `WITH_RESPECT_TO`: names in the preamble by which float results are differentiated
  (gradient of the sum of squares, and once more where `SECOND_ORDER` is True).

Initializers run before the value. For an expression that raises, the name of the exception is
recorded, and whether it was raised while the graph was built or while it ran.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sparkflow"))
sys.path.insert(0, str(Path(__file__).parent))

import differential_cases

DIRECTORY = Path(__file__).parents[1] / "tests" / "golden" / "differential"


def main() -> None:
    """Writes the files of the families named on the command line; without names, of all."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    folder = Path(__file__).parent / "differential"
    families = sys.argv[1:] or sorted(p.stem for p in folder.glob("[a-z]*.py"))
    for family in families:
        module = importlib.import_module(f"differential.{family}")
        entries = []
        for case in differential_cases.split(module.EXPRESSIONS):
            entry: dict[str, Any] = {"case": case}
            entry.update(
                differential_cases.answer(
                    tf,
                    module.PREAMBLE,
                    case,
                    getattr(module, "WITH_RESPECT_TO", ()),
                    getattr(module, "SECOND_ORDER", False),
                )
            )
            entries.append(entry)
            if "raises" in entry:
                print(f"{family}: {case.splitlines()[-1]}: {entry['when']} {entry['raises']}")
        header = {
            "preamble": module.PREAMBLE,
            "with_respect_to": list(getattr(module, "WITH_RESPECT_TO", ())),
            "second_order": getattr(module, "SECOND_ORDER", False),
        }
        body = ",\n".join(json.dumps(entry) for entry in entries)
        text = f'{{"header": {json.dumps(header)},\n"entries": [\n{body}\n]}}\n'
        (DIRECTORY / f"{family}.json").write_text(text)
        print(f"{family}: {len(entries)} cases")


if __name__ == "__main__":
    main()
