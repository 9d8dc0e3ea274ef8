from sparkflow_runtime.dtypes import float32
from sparkflow_runtime.ir.effects import mutates
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes.late_reads import late_reads

VARIABLE = Node(
    "v",
    "VariableV2",
    attrs={"shape": (), "dtype": float32, "container": "", "shared_name": ""},
)
READ = Node("read", "Identity", (Endpoint("v", 0),), attrs={"T": float32})
UPDATE = Node(
    "update",
    "AssignAdd",
    (Endpoint("v", 0), Endpoint("read", 0)),
    attrs={"T": float32, "use_locking": False},
)


def reader(name, *control, of="read"):
    return Node(name, "Neg", (Endpoint(of, 0),), control, attrs={"T": float32})


def inputs(graph, name):
    return [str(endpoint) for endpoint in graph[name].inputs]


def test_what_follows_an_update_reads_the_variable():
    graph = late_reads(Graph([VARIABLE, READ, UPDATE, reader("late", "update"), reader("early")]))
    assert inputs(graph, "late") == ["v:0"]
    assert inputs(graph, "early") == ["read:0"]
    assert inputs(graph, "update") == ["v:0", "read:0"]


def test_following_through_other_nodes_counts():
    wait = Node("wait", "NoOp", control_inputs=("update",))
    graph = late_reads(Graph([VARIABLE, READ, UPDATE, wait, reader("late", "wait")]))
    assert inputs(graph, "late") == ["v:0"]


def test_a_read_that_waits_for_something_itself_stays():
    waiting = Node("read", "Identity", (Endpoint("v", 0),), ("first",), attrs={"T": float32})
    first = Node("first", "NoOp")
    graph = late_reads(Graph([VARIABLE, first, waiting, UPDATE, reader("late", "update")]))
    assert inputs(graph, "late") == ["read:0"]


def test_a_graph_without_updates_is_left_alone():
    graph = Graph([VARIABLE, READ, reader("early")])
    assert late_reads(graph) is graph


def test_looking_at_a_variable_is_no_update():
    look = Node("look", "IsVariableInitialized", (Endpoint("v", 0),), attrs={"dtype": float32})
    assert not mutates(look)
    assert mutates(UPDATE)
    graph = late_reads(Graph([VARIABLE, READ, look, reader("after", "look")]))
    assert inputs(graph, "after") == ["read:0"]
