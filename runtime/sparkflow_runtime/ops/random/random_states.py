"""The states of a session's random streams as a tensor, for checkpoints.

These ops are sparkflow's own. A state is JSON, never a pickle: a checkpoint may come from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import NodeView, Op, not_differentiable
from sparkflow_runtime.ops.random.random import WAITING_STATES, RandomStream
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.resources.container import Resources

_WORDS = ("counter", "key")


class _StatesOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


@register
class RandomStates(_StatesOp):
    """The states of all streams of the session on this task, as one string."""

    is_ours = True
    outputs = "states: string"
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Looks up the streams in every step, since some may be created later."""
        return lambda: np.array(read_states(context.session), object)


@register
class SetRandomStates(_StatesOp):
    """Restores the session's streams on this task from the result of `RandomStates`."""

    is_ours = True
    inputs = "states: string"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Streams that are created later start from these states, too."""

        def kernel(states: Any) -> None:
            write_states(context.session, bytes(np.asarray(states, object).item()))

        return kernel


def read_states(session: Resources) -> bytes:
    """The states of all streams of a session."""
    found = {}
    for name, stream in session.items(RandomStream):
        with stream.lock:
            found[name] = _plain(stream.state)
    return json.dumps(found, sort_keys=True).encode()


def write_states(session: Resources, states: bytes) -> None:
    """Sets the streams of a session.

    Args:
        session: The session's resources.
        states: The result of `read_states`.

    Raises:
        InvalidArgumentError: They are not valid states.
    """
    try:
        given = {name: _state(value) for name, value in json.loads(states).items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidArgumentError(
            message=f"These are no states of random streams: {error!r}"
        ) from error
    existing = dict(session.items(RandomStream))
    waiting = session.get_or_create("", WAITING_STATES, dict, dict)
    for name, state in given.items():
        stream = existing.get(name)
        if stream is None:
            waiting[name] = state
            continue
        with stream.lock:
            stream.state = state


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        key: int(state[key]) for key in ("buffer_pos", "has_uint32", "uinteger")
    }
    plain["buffer"] = [int(word) for word in state["buffer"]]
    return plain | {key: [int(word) for word in state["state"][key]] for key in _WORDS}


def _state(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The state for numpy's Philox; lengths are checked here, since numpy does not."""
    words = {}
    for key, length in (("counter", 4), ("key", 2), ("buffer", 4)):
        words[key] = np.array([int(word) for word in plain[key]], np.uint64)
        if words[key].shape != (length,):
            raise ValueError(f"{key} has {words[key].size} words instead of {length}")
    position, has_half, half = (int(plain[key]) for key in ("buffer_pos", "has_uint32", "uinteger"))
    if not (0 <= position <= 4 and has_half in (0, 1) and 0 <= half < 1 << 32):
        raise ValueError(f"no state of a Philox generator: {position}, {has_half}, {half}")
    return {
        "bit_generator": "Philox",
        "state": {"counter": words["counter"], "key": words["key"]},
        "buffer": words["buffer"],
        "buffer_pos": position,
        "has_uint32": has_half,
        "uinteger": half,
    }
