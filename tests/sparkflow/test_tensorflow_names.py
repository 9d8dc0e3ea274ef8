"""TensorFlow's public names, members and parameters: available, or answered with an alternative.

`tests/golden/names/public.json` is TensorFlow's list, see `scripts/generate_names_golden.py`.
"""

import inspect
import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import sparkflow as tf
from sparkflow._api.absent import ABSENT

GOLDEN = Path(__file__).parents[1] / "golden" / "names" / "public.json"
NAMES = json.loads(GOLDEN.read_text())


def found(path):
    """Returns the value of a dotted path.

    Raises:
        AttributeError: There is none; the text is that of the first missing part.
    """
    item = tf
    for part in path.split("."):
        item = getattr(item, part)
    return item


ANSWER = (
    r"^module 'sparkflow[\w.]*' has no attribute '\w+'(: |\. Did you mean tf\.[\w. ]*\? If not: )\w"
)


def is_here(path):
    try:
        found(path)
    except AttributeError:
        return False
    return True


HERE = [name for name in NAMES if is_here(name)]


def test_most_names_are_here():
    assert len(HERE) >= 1870


@pytest.mark.parametrize("name", [name for name in NAMES if name not in set(HERE)])
def test_a_name_that_is_not_here_says_what_to_use_instead(name):
    with pytest.raises(AttributeError, match=ANSWER):
        found(name)


def test_every_such_answer_is_of_use():
    """A pattern that matches nothing, or that names something available, is out of date."""
    listed = [name for name in NAMES if name not in set(HERE)]
    unused = [
        pattern
        for pattern in ABSENT
        if not pattern.startswith(("contrib.", "nn.rnn_cell", "keras.", "optimizers", "hub"))
        and not any(fnmatchcase(name, pattern) for name in listed)
    ]
    assert unused == []


def test_other_names_are_plain_errors():
    with pytest.raises(AttributeError, match="module 'sparkflow' has no attribute 'no_such_name'"):
        _ = tf.no_such_name
    with pytest.raises(AttributeError, match=r"module 'sparkflow.nn' has no attribute 'no_such'"):
        _ = tf.nn.no_such


TYPE_PROTOCOL = {
    *("cast", "flatten", "from_tensors", "to_tensors", "placeholder_value"),
    *("experimental_as_proto", "experimental_from_proto", "experimental_type_proto"),
    *("is_subtype_of", "most_specific_common_supertype"),
}
"""What tracing of TensorFlow 2's functions requests of types; nothing is traced here."""
WITHOUT = {
    "*": {"experimental_payloads", "param_shapes", "param_static_shapes"},
    "*DType": TYPE_PROTOCOL,
    "*Spec": TYPE_PROTOCOL,
    "TensorShape": TYPE_PROTOCOL,
    # The format of dataset files would be only ours: TFRecordWriter and cache(filename) write.
    "data.*": {"fingerprint", "load", "save", "snapshot", "ragged_batch"},
    "GradientTape": {"batch_jacobian"},
    # The C objects behind a graph and its nodes.
    "Graph": {"Dismantle", "get", "new_operations"},
    "Operation": {"experimental_set_type", "from_node_def"},
    "Module": {"non_trainable_variables"},
    "profiler.*": {
        *("with_pprof_output", "advise", "profile_graph", "profile_python"),
        "serialize_to_string",
    },
    "test.*": {"captureWritesToStream", "evaluate_if_both_tensors", "is_abstract"},
    # Those of unittest, until Python 3.11.
    "test.TestCase": {
        *("failIf", "failIfAlmostEqual", "failIfEqual", "failUnless", "failUnlessAlmostEqual"),
        *("failUnlessEqual", "failUnlessRaises"),
    },
}
"""Members of TensorFlow's classes that are missing, by pattern of the class."""


def left_out(name, member):
    return any(fnmatchcase(name, pattern) and member in WITHOUT[pattern] for pattern in WITHOUT)


def assigned(kind):
    """Returns the attributes that `__init__` and the like of a class and its bases assign."""
    text = ""
    for base in kind.__mro__:
        if base.__module__.startswith("sparkflow"):
            text += inspect.getsource(base)
    return text


CLASSES = [
    name
    for name in HERE
    if NAMES[name]["kind"] == "class"
    and NAMES[name]["members"]
    and inspect.isclass(found(name))
    and found(name).__module__.startswith("sparkflow")
]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_members_that_tensorflows_have(name):
    kind = found(name)
    source = assigned(kind)
    fields = getattr(kind, "__dataclass_fields__", {})
    missing = [
        member
        for member in NAMES[name]["members"]
        if not hasattr(kind, member)
        and f"self.{member} = " not in source
        and f"self.{member}: " not in source
        and f"self.{member}, " not in source
        and f'"{member}"' not in source
        and member not in fields
        and not left_out(name, member)
    ]
    assert missing == []


OTHERWISE = {
    "*.__init__": "how an object is made that users do not make is our own",
    "errors.*": "errors take an error_code, which TensorFlow's subclasses know",
    "test.TestCase.*": "unittest's own",
    "group": "its keywords are one",
    "meshgrid": "its keywords are named",
    "io.gfile.join": "takes any number",
    "nn.*_with_logits": "a first argument that refuses positions, as TensorFlow 1.15 has it",
    "is_variable_initialized": "TensorFlow 1.15 has a name",
    "nest.is_nested": "an older name of the argument",
    "function": "functions run as Python; other options are accepted",
    "tf.function": "likewise",
}
"""Why parameters of some functions differ from TensorFlow 2.21's."""


OF_OPTIMIZERS = [f"{name}.apply_gradients" for name in CLASSES if name.endswith("Optimizer")]
"""TensorFlow 2.21 has an option here for its strategies."""


def test_parameters_are_tensorflows_or_there_is_a_reason():
    """All of TensorFlow's in its order, followed by ours; `PARAMETERS` lists the exceptions."""
    differ = sorted(set(different()) - PARAMETERS - {*OF_OPTIMIZERS})
    assert differ == []
    assert sorted(PARAMETERS - set(different())) == []


def different():
    for name in HERE:
        entry = NAMES[name]
        if entry["kind"] == "function":
            yield from compared(name, entry["parameters"], found(name))
        elif name in CLASSES:
            kind = found(name)
            for member, parameters in entry["members"].items():
                if hasattr(kind, member) and callable(getattr(kind, member)):
                    yield from compared(f"{name}.{member}", parameters, getattr(kind, member))


def compared(name, theirs, function):
    if theirs is None or any(fnmatchcase(name, pattern) for pattern in OTHERWISE):
        return
    try:
        ours = [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return
    ours = [each for each in ours if each != "self"]
    theirs = [each.lstrip("*") for each in theirs if each not in ("*args", "**kwargs")]
    if ours[: len(theirs)] != theirs and not set(ours) & {"kwargs", "keywords"}:
        yield name


PARAMETERS = {
    *("Graph.as_graph_def", "data.experimental.make_csv_dataset"),
    *(f"data.{kind}.zip" for kind in ("Dataset", "TextLineDataset", "TFRecordDataset")),
    "data.FixedLengthRecordDataset.zip",
    *(f"data.experimental.{kind}.zip" for kind in ("CsvDataset", "RandomDataset")),
    *("fill", "ones", "zeros", "lin_space", "linspace", "matmul", "linalg.matmul"),
    *("gather_nd", "scatter_nd", "manip.gather_nd", "manip.scatter_nd"),
    *(f"tensor_scatter_nd_{what}" for what in ("add", "max", "min", "sub")),
    *("tensor_scatter_add", "tensor_scatter_sub", "vectorized_map", "sparse.cross"),
    *("image.adjust_jpeg_quality", "image.non_max_suppression_padded", "image.ssim"),
    *("nn.embedding_lookup_sparse", "nn.safe_embedding_lookup_sparse"),
    *(f"random.stateless_{what}" for what in ("normal", "truncated_normal", "uniform")),
    *("saved_model.Builder.save", "saved_model.builder.SavedModelBuilder.save"),
    *("saved_model.load", "saved_model.loader.load"),
    "saved_model.build_signature_def",
    "saved_model.signature_def_utils.build_signature_def",
    *("train.MonitoredTrainingSession", "train.assert_global_step"),
}
"""Functions that lack options added to TensorFlow after 1.15, or that have one of ours."""
