"""Writes tests/golden/optimizers/*.json: updates of variables by TensorFlow's kernels.

Run it in an environment that has TensorFlow (sparkflow's own does not need it):

    python scripts/generate_optimizer_golden.py
"""

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf  # type: ignore[import-not-found,unused-ignore]

v1 = tf.compat.v1
FOLDER = Path(__file__).parent.parent / "tests" / "golden" / "optimizers"
STEPS = 5

# Per op: initial values of its slots and its scalars, by TensorFlow's argument names.
DENSE: dict[str, tuple[dict[str, float], dict[str, float], dict[str, bool]]] = {
    "ApplyGradientDescent": ({}, {"alpha": 0.1}, {}),
    "ApplyMomentum": ({"accum": 0.0}, {"lr": 0.1, "momentum": 0.9}, {}),
    "ApplyMomentum nesterov": (
        {"accum": 0.0},
        {"lr": 0.1, "momentum": 0.9},
        {"use_nesterov": True},
    ),
    "ApplyAdagrad": ({"accum": 0.1}, {"lr": 0.5}, {}),
    "ApplyAdagrad frozen": ({"accum": 0.1}, {"lr": 0.5}, {"update_slots": False}),
    "ApplyAdagradV2": ({"accum": 0.1}, {"lr": 0.5, "epsilon": 0.01}, {}),
    "ApplyAdadelta": (
        {"accum": 0.0, "accum_update": 0.0},
        {"lr": 1.0, "rho": 0.95, "epsilon": 0.001},
        {},
    ),
    "ApplyAdam": (
        {"m": 0.0, "v": 0.0},
        {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7},
        {},
    ),
    "ApplyAdam nesterov": (
        {"m": 0.0, "v": 0.0},
        {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7},
        {"use_nesterov": True},
    ),
    "ApplyRMSProp": (
        {"ms": 1.0, "mom": 0.0},
        {"lr": 0.01, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-6},
        {},
    ),
    "ApplyCenteredRMSProp": (
        {"mg": 0.0, "ms": 1.0, "mom": 0.0},
        {"lr": 0.01, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-6},
        {},
    ),
    "ApplyFtrl": (
        {"accum": 0.1, "linear": 0.0},
        {"lr": 0.5, "l1": 0.2, "l2": 0.1, "lr_power": -0.5},
        {},
    ),
    "ApplyFtrl multiplied": (
        {"accum": 0.1, "linear": 0.0},
        {"lr": 0.5, "l1": 0.2, "l2": 0.1, "lr_power": -0.6},
        {"multiply_linear_by_lr": True},
    ),
    "ApplyFtrlV2": (
        {"accum": 0.1, "linear": 0.0},
        {"lr": 0.5, "l1": 0.2, "l2": 0.1, "l2_shrinkage": 0.3, "lr_power": -0.5},
        {},
    ),
    "ApplyProximalGradientDescent": ({}, {"alpha": 0.1, "l1": 0.3, "l2": 0.2}, {}),
    "ApplyProximalGradientDescent ridge": ({}, {"alpha": 0.1, "l1": 0.0, "l2": 0.2}, {}),
    "ApplyProximalAdagrad": ({"accum": 0.1}, {"lr": 0.5, "l1": 0.3, "l2": 0.2}, {}),
    "ApplyProximalAdagrad ridge": ({"accum": 0.1}, {"lr": 0.5, "l1": 0.0, "l2": 0.2}, {}),
    "ApplyAdagradDA": (
        {"gradient_accumulator": 0.0, "gradient_squared_accumulator": 0.1},
        {"lr": 0.5, "l1": 0.1, "l2": 0.2},
        {},
    ),
    "ApplyAdagradDA ridge": (
        {"gradient_accumulator": 0.0, "gradient_squared_accumulator": 0.1},
        {"lr": 0.5, "l1": 0.0, "l2": 0.2},
        {},
    ),
    "ApplyAdaMax": (
        {"m": 0.0, "v": 0.0},
        {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7},
        {},
    ),
    "ApplyAddSign": (
        {"m": 0.0},
        {"lr": 0.1, "alpha": 1.1, "sign_decay": 0.9, "beta": 0.8},
        {},
    ),
    "ApplyPowerSign": (
        {"m": 0.0},
        {"lr": 0.1, "logbase": 1.2, "sign_decay": 0.9, "beta": 0.8},
        {},
    ),
}
NOT_SPARSE = (
    "ApplyGradientDescent",
    "ApplyAdam",
    "ApplyAdaMax",
    "ApplyAddSign",
    "ApplyPowerSign",
)


def main() -> None:
    """Writes both files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    cases = [dense_case(key) for key in DENSE]
    cases += [sparse_case(key) for key in DENSE if not key.startswith(NOT_SPARSE)]
    write("apply.json", cases)
    write("scatter.json", [scatter_case(op) for op in ("Update", "Add", "Sub", "Mul", "Div")])


def dense_case(key: str) -> dict[str, Any]:
    """One dense op over five steps on a (2, 3) variable."""
    random = np.random.default_rng(7)
    steps = [{"grad": random.standard_normal((2, 3)).astype(np.float32)} for _ in range(STEPS)]
    return run_case(key, key.split()[0], random.standard_normal((2, 3)), steps)


def sparse_case(key: str) -> dict[str, Any]:
    """One sparse op over five steps on three different rows of a (5, 2) variable."""
    random = np.random.default_rng(8)
    steps = [
        {
            "grad": random.standard_normal((3, 2)).astype(np.float32),
            "indices": random.permutation(5)[:3].astype(np.int32),
        }
        for _ in range(STEPS)
    ]
    return run_case(key, "Sparse" + key.split()[0], random.standard_normal((5, 2)), steps)


def run_case(
    key: str, op: str, initial: np.ndarray[Any, Any], steps: list[dict[str, Any]]
) -> dict[str, Any]:
    """Initial values, inputs of every step, and the variable and its slots after the last."""
    slots, scalars, flags = DENSE[key]
    with tf.Graph().as_default(), v1.Session() as session:
        start = {"var": initial.astype(np.float32)}
        start |= {name: np.full(initial.shape, value, np.float32) for name, value in slots.items()}
        variables = {
            name: v1.Variable(value, use_resource=False, name=name) for name, value in start.items()
        }
        session.run(v1.global_variables_initializer())
        for number, step in enumerate(steps, 1):
            values = dict(scalars)
            if op in ("ApplyAdam", "ApplyAdaMax"):
                values["beta1_power"] = float(np.float32(scalars["beta1"]) ** number)
            if op == "ApplyAdam":
                values["beta2_power"] = float(np.float32(scalars["beta2"]) ** number)
            step["scalars"] = values
            inputs = {name: v._variable for name, v in variables.items()}
            inputs |= {name: tf.constant(value, tf.float32) for name, value in values.items()}
            if op.endswith("AdagradDA"):
                step["global_step"] = number
                inputs["global_step"] = tf.constant(number, tf.int64)
            grad = "delta" if "alpha" in scalars and "Descent" in op else "grad"
            grad = "grad" if op.startswith("Sparse") else grad
            inputs[grad] = tf.constant(step["grad"])
            if "indices" in step:
                inputs["indices"] = tf.constant(step["indices"])
            session.run(getattr(tf.raw_ops, op)(**inputs, **flags))
        after = session.run(variables)
    return {"name": key, "op": op, "flags": flags, "start": start, "steps": steps, "after": after}


def scatter_case(kind: str) -> dict[str, Any]:
    """One scatter op with indices that repeat."""
    random = np.random.default_rng(9)
    start = random.standard_normal((4, 3)).astype(np.float32)
    indices = np.array([[2, 0, 2], [3, 2, 0]], np.int64)
    updates = random.standard_normal((2, 3, 3)).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.Variable(start, use_resource=False)
        session.run(variable.initializer)
        op = getattr(tf.raw_ops, f"Scatter{kind}")
        session.run(op(ref=variable._variable, indices=indices, updates=updates))
        after = session.run(variable)
    return {
        "op": f"Scatter{kind}",
        "start": start,
        "indices": indices,
        "updates": updates,
        "after": after,
    }


def write(name: str, cases: list[dict[str, Any]]) -> None:
    """One case per line, float32 values with the nine digits that identify them."""
    lines = ",\n".join(json.dumps(plain(case)) for case in cases)
    (FOLDER / name).write_text(f"[\n{lines}\n]\n")


def plain(value: Any) -> Any:
    """The value in JSON's types."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return float(f"{value:.9g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
