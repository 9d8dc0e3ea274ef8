from sparkflow_runtime.compiler.fork_source import BRANCHES, Lines, with_forks
from sparkflow_runtime.compiler.forks import Fork

TEXTS = """\
    v1 = k1(a1)
    v2 = k2(v1, b1)
    v3, _ = k3(v2, a1); del v2
    r1 = k4(step, v1); del v1
    v4 = k5(a1)
    k6(v4, b2) or s6(v4, b2); del v4
    r2 = k7(v3); del v3
""".splitlines()


class Now:
    """Runs branches when they are waited for."""

    log: list

    def __init__(self, fill):
        self.log.append(fill)
        self.calls = []

    def start(self, function, *arguments):
        self.calls.append((function, arguments))

    def values(self):
        return [function(*arguments) for function, arguments in self.calls]

    def abandon(self):
        self.log.append("abandoned")


def run(texts, fail=None):
    def kernel(number):
        def called(*arguments):
            if number == fail:
                raise ValueError(number)
            return (number, arguments) if number != 3 else ((number, arguments), None)

        return called

    Now.log = []
    names = {f"k{number}": kernel(number) for number in range(1, 8)}
    names |= {"s6": None, "b1": "b1", "b2": "b2", BRANCHES: Now}
    source = "\n".join(["def run(step, a1):", *texts, "    return (r1, r2)"])
    exec(source, names)  # noqa: S102 - it is written above
    return names["run"]("step", "a1"), Now.log


def forked(*forks, threads=2):
    lines = Lines(list(TEXTS), list(range(len(TEXTS))))
    return with_forks(lines, range(len(TEXTS) + 1), forks, threads)


def test_forks_change_no_result():
    one = Fork(1, ((1, 2, 3), (4, 5)))
    for forks in ([one], [Fork(1, ((1, 2), (3,), (4, 5)))], [Fork(0, ((0,), ())), one]):
        assert run(forked(*forks).texts)[0] == run(TEXTS)[0]


def test_the_text_of_a_fork():
    assert forked(Fork(1, ((1, 2, 3), (4, 5)))).texts == [
        "    v1 = k1(a1)",
        "    def t0_0(v1, a1, step):",
        "        v2 = k2(v1, b1)",
        "        v3, _ = k3(v2, a1); del v2",
        "        r1 = k4(step, v1); del v1",
        "        return (v3, r1, )",
        "    t0 = branches(True)",
        "    try:",
        "        t0.start(t0_0, v1, a1, step)",
        "        del v1",
        "        v4 = k5(a1)",
        "        k6(v4, b2) or s6(v4, b2); del v4",
        "    except BaseException:",
        "        t0.abandon()",
        "        raise",
        "    [v3, r1], = t0.values()",
        "    r2 = k7(v3); del v3",
    ]


def test_every_line_keeps_its_node():
    lines = forked(Fork(1, ((1, 2, 3), (4, 5))))
    for text, node in zip(lines.texts, lines.nodes, strict=True):
        assert (node is None) == (text.strip() not in {each.strip() for each in TEXTS})
        assert node is None or text.strip() == TEXTS[node].strip()


def test_branches_are_waited_for_where_the_own_one_fails():
    texts = forked(Fork(1, ((1, 2, 3), (4, 5)))).texts
    try:
        run(texts, fail=5)
    except ValueError:
        assert Now.log == [True, "abandoned"]
    else:
        raise AssertionError


def test_fewer_branches_than_threads_leave_room():
    assert "    t0 = branches(False)" in forked(Fork(1, ((1, 2, 3), (4, 5))), threads=3).texts
