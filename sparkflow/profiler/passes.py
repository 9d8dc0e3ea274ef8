"""What the passes between a session's graph and its steps did, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sparkflow_runtime.protos.config_pb2 import RunMetadata
from sparkflow_runtime.protos.graph_pb2 import GraphDef


def describe_passes(run_metadata: RunMetadata, most_ops: int = 6) -> str:
    """One line per pass: how many nodes there were after it, and which ops it took and made.

    Args:
        run_metadata: Of a run with `RunOptions(output_pass_graphs=True)`.
        most_ops: How many op types a line names at most, those that changed most first.

    Raises:
        ValueError: The run was not asked for the graphs.

    >>> import sparkflow as tf
    >>> y = tf.identity(tf.constant(2.0) * 3.0)
    >>> metadata = tf.RunMetadata()
    >>> with tf.Session() as session:
    ...     session.run(y, None, tf.RunOptions(output_pass_graphs=True), metadata)
    np.float32(6.0)
    >>> print(tf.profiler.describe_passes(metadata))
    pass      nodes
    prune         5
    simplify      4  -1 Identity
    fold          2  -1 Const, -1 Mul
    place         2
    """
    graphs = run_metadata.pass_graphs
    if not graphs:
        raise ValueError(
            "The metadata has no graphs of passes: run the step with "
            "tf.RunOptions(output_pass_graphs=True)"
        )
    width = max(len("pass"), *(len(each.name) for each in graphs))
    lines = [f"{'pass':<{width}}  nodes"]
    before = graphs[0].graph
    for each in graphs:
        changes = [f"{count:+d} {op}" for op, count in _changes(before, each.graph)]
        if len(changes) > most_ops:
            changes[most_ops:] = [f"{len(changes) - most_ops} more"]
        line = f"{each.name:<{width}}  {len(each.graph.node):>5}  {', '.join(changes)}"
        lines.append(line.rstrip())
        before = each.graph
    return "\n".join(lines)


def _changes(before: GraphDef, after: GraphDef) -> Iterator[tuple[str, int]]:
    """Op types of which there are more or fewer, the most changed first."""
    counts = Counter(node.op for node in after.node)
    counts.subtract(node.op for node in before.node)
    for op, count in sorted(counts.items(), key=lambda item: (-abs(item[1]), item[0])):
        if count:
            yield op, count
