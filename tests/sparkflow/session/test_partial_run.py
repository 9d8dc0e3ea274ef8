import threading

import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster


@pytest.fixture(params=["in process", "grpc"], scope="module")
def target(request):
    if request.param == "in process":
        yield ""
        return
    with LocalCluster(1, 1) as cluster:
        yield f"grpc://{cluster.address('worker', 0)}"


@pytest.fixture
def session(target):
    with tf.Graph().as_default(), tf.Session(target) as session:
        yield session


@pytest.fixture
def abc(session):
    a = tf.placeholder(tf.float32, [], name="a")
    b = tf.placeholder(tf.float32, [], name="b")
    c = tf.placeholder(tf.float32, [], name="c")
    first = tf.add(a, b, name="first")
    return a, b, c, first, tf.multiply(first, c, name="second")


def test_a_call_that_is_refused_feeds_nothing(session, abc):
    a, b, c, first, second = abc
    handle = session.partial_run_setup([first, second], [a, b, c])
    with pytest.raises(tf.errors.InvalidArgumentError, match="can't be computed"):
        session.partial_run(handle, second, {a: 1})
    assert session.partial_run(handle, first, {a: 1, b: 2}) == 3
    assert session.partial_run(handle, second, {c: 2}) == 6


def test_a_step_in_two_calls(session, abc):
    a, b, c, first, second = abc
    handle = session.partial_run_setup([first, second], [a, b, c])
    assert session.partial_run(handle, first, {a: 1, b: 2}) == 3
    assert session.partial_run(handle, {"last": second}, {c: first.eval({a: 2, b: 8})}) == {
        "last": 30
    }


def test_feeds_may_come_one_by_one_and_runs_overlap(session, abc):
    a, b, c, first, second = abc
    handles = [session.partial_run_setup([first, second], [a, b, c]) for _ in range(2)]
    for factor, handle in enumerate(handles):
        assert session.partial_run(handle, [], {a: factor}) == []
    for handle in handles:
        session.partial_run(handle, [], {b: 1})
    assert [session.partial_run(handle, first) for handle in handles] == [1, 2]
    assert [session.partial_run(handle, second, {c: 5}) for handle in handles] == [5, 10]


def test_each_node_runs_once(session):
    x = tf.placeholder(tf.float32, [])
    count = tf.Variable(0.0)
    session.run(count.initializer)
    counted = tf.identity(tf.assign_add(count, 1.0))
    later = counted * x
    handle = session.partial_run_setup([counted, later], [x])
    assert session.partial_run(handle, counted) == 1.0
    assert session.partial_run(handle, later, {x: 10.0}) == 10.0
    assert session.run(count) == 1.0


def test_random_numbers_stay_the_same_within_a_run(session):
    x = tf.placeholder(tf.float32, [])
    noise = tf.random_uniform([])
    handle = session.partial_run_setup([noise, noise + x], [x])
    drawn = session.partial_run(handle, noise)
    assert session.partial_run(handle, "add:0", {x: 1.0}) == drawn + 1.0


def test_operations_announced_are_run(session, abc):
    a, b, c, first, _ = abc
    v = tf.Variable(0.0)
    session.run(v.initializer)
    with tf.control_dependencies([first]):
        store = tf.assign(v, c).op
    handle = session.partial_run_setup([first, store], [a, b, c])
    session.partial_run(handle, first, {a: 1, b: 1})
    assert session.run(v) == 0.0
    session.partial_run(handle, [], {c: 7})
    assert session.run(v) == 7.0


def test_intermediate_tensors_can_be_fed(session, abc):
    _, _, c, first, second = abc
    handle = session.partial_run_setup(second, [first, c])
    assert session.partial_run(handle, second, {first: 4, c: 2}) == 8


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            [("first:0", {"a:0": 1, "b:0": 2}), ("first:0", {})],
            "fetch first:0 has already been fet",
        ),
        (
            [("first:0", {"a:0": 1, "b:0": 2}), ("second:0", {"a:0": 1})],
            "feed a:0 has already been",
        ),
        (
            [("second:0", {"a:0": 1, "b:0": 2})],
            "can't be computed from the feeds that have been fed",
        ),
        ([("a:0", {})], "fetch a:0 was not specified in partial_run_setup"),
        ([("first:0", {"first:0": 1})], "feed first:0 was not specified in partial_run_setup"),
    ],
)
def test_what_was_not_agreed_is_refused(session, abc, calls, message):
    a, b, c, first, second = abc
    handle = session.partial_run_setup([first, second], [a, b, c])
    *before, last = calls
    for fetch, feeds in before:
        session.partial_run(handle, fetch, feeds)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.partial_run(handle, *last)


def test_wrong_use_is_explained(session, abc):
    a, _, _, first, _ = abc
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="at least one target to fetch or exec"
    ):
        session.partial_run_setup([], [a])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup' before"):
        session.partial_run("nowhere", first)
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        session.partial_run_setup([first], [3])
    handle = session.partial_run_setup([first], [a])
    with pytest.raises(RuntimeError, match="requires empty target_list"):
        session.partial_run(handle, first.op)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"You must feed .* tensor 'b'"
    ) as raised:
        session.partial_run(handle, first, {a: 1})
    assert raised.value.op is session.graph.get_operation_by_name("b")


def test_many_runs_of_the_same_kind_are_compiled_once(session, abc):
    a, b, c, first, second = abc
    results = []

    def run(start):
        for value in range(start, start + 5):
            handle = session.partial_run_setup([first, second], [a, b, c])
            session.partial_run(handle, first, {a: value, b: 0})
            results.append((value, session.partial_run(handle, second, {c: 2})))

    threads = [threading.Thread(target=run, args=(10 * n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 15
    assert all(result == 2 * value for value, result in results)
