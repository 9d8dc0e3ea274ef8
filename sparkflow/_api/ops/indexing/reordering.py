"""Elements moved, repeated and sent to parts by number; masks of sequences; shapes of several."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "Roll",
        "roll manip.roll",
        "input, shift, axis",
        "Moves elements by `shift` along `axis` (numbers, or lists of them), around the end.",
    ),
    Row(
        "Cross",
        "cross linalg.cross",
        "a, b",
        "The cross products of vectors of length 3 in the last dimension.",
    ),
    Row(
        "InvertPermutation",
        "invert_permutation math.invert_permutation",
        "x",
        "The permutation y with y[x[i]] = i.",
    ),
    Row(
        "DynamicPartition",
        "dynamic_partition",
        "data, partitions, num_partitions: int",
        ("`num_partitions` tensors, each with the slices of `data` that `partitions` sends there."),
        result="list[Tensor]",
    ),
    Row(
        "DynamicStitch",
        "dynamic_stitch",
        "indices, data",
        "One tensor whose row `indices[m][i, ...]` is `data[m][i, ...]`; the last one wins.",
    ),
    Row(
        "IdentityN",
        "identity_n",
        "input",
        "The same tensors as outputs of one node.",
        result="list[Tensor]",
    ),
    Row(
        "EnsureShape",
        "ensure_shape",
        "x, shape",
        "The tensor, with a static shape that is checked when it runs.",
        raises={
            "ValueError": "Its static shape contradicts `shape`.",
        },
    ),
    Row(
        "GuaranteeConst",
        "guarantee_const",
        "input",
        "The tensor, promised to be the same in every run.",
    ),
    Row(
        "ShapeN",
        "shape_n",
        "input, out_type=int32",
        "The shapes of several tensors of one dtype.",
        result="list[Tensor]",
    ),
)
