import pytest

from sparkflow_runtime.checkpoint.sealed_message import open_message, seal_message, seal_text
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from support.damage import damages

FILES = {"variables.data": 0xDEADBEEF}


def message():
    graph = GraphDef()
    graph.node.add(name="a", op="Const")
    graph.node.add(name="b", op="Identity", input=["a"])
    return graph


@pytest.mark.parametrize("files", [{}, FILES])
@pytest.mark.parametrize("seal", [seal_message, seal_text])
def test_what_was_sealed_is_opened(seal, files):
    content = message().SerializeToString() if seal is seal_message else str(message()).encode()
    opened = open_message(seal(content, files), "f")
    assert opened.content == content
    assert opened.files == files


def test_other_programs_read_over_the_marks_and_keep_them():
    sealed = seal_message(message().SerializeToString(), FILES)
    read = GraphDef.FromString(sealed)
    assert list(read.node) == list(message().node)
    # Unknown fields are last in what a program writes after reading: then there is no seal.
    read.node[0].name = "changed"
    opened = open_message(read.SerializeToString(), "f")
    assert GraphDef.FromString(opened.content).node[0].name == "changed"
    assert opened.files == {}


@pytest.mark.parametrize("seal", [seal_message, seal_text])
def test_no_damage_and_no_cut_goes_unseen(seal):
    content = message().SerializeToString() if seal is seal_message else str(message()).encode()
    good = seal(content, FILES)
    for bad in damages(good):
        if bad:  # an empty file is an empty message of any program
            with pytest.raises(DataLossError, match="f is damaged"):
                open_message(bad, "f")


def test_files_of_other_programs_pass_as_they_are():
    for content in (b"", message().SerializeToString(), str(message()).encode()):
        assert open_message(content, "f").content == content


def test_a_text_that_was_edited_says_how_to_go_on():
    edited = seal_text(str(message()).encode()).replace(b'"a"', b'"c"')
    with pytest.raises(DataLossError, match="delete its first and its last line"):
        open_message(edited, "f")
