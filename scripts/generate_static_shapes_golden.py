"""Writes tests/golden/static_shapes.json: the static shapes TensorFlow 1 infers.

The programs are in `tests/sparkflow/static_shape_cases.py`; `tests/sparkflow/test_static_shapes.py`
replays them. Run with a Python that has TensorFlow:

    /work/venvs/oracle/bin/python scripts/generate_static_shapes_golden.py
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sparkflow"))

import static_shape_cases as cases

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "static_shapes.json"


def main() -> None:
    """Asks TensorFlow and writes, per consumer and argument, the answers by source."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.contrib = _Contrib(tf)
    lines = []
    count = 0
    for consumers, name, arguments in cases.GROUPS.values():
        for consumer in consumers:
            with tf.Graph().as_default():
                cases.with_sources(tf)
                answers = {
                    argument: [
                        cases.built(tf, consumer, name, argument, source)[1]
                        for source in cases.SOURCES
                    ]
                    for argument in arguments
                }
            count += len(cases.SOURCES) * len(answers)
            body = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in answers.items())
            lines.append(f"{json.dumps(consumer)}: {{\n{body}\n}}")
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{count} programs")


class _Contrib:
    """The part of `tf.contrib` that the cases ask for, where TensorFlow has it today."""

    def __init__(self, tf: object) -> None:
        self.util = self
        self.constant_value = tf.get_static_value  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
