import pytest

from sparkflow_runtime.compiler.forks import (
    NONE,
    USUAL,
    Fork,
    Limits,
    Unit,
    find_forks,
    order_with,
    times_with,
)

MS = 1e-3


def unit(seconds, *waits, shared=None, **flags):
    return Unit(frozenset(waits), seconds if shared is None else shared, seconds, **flags)


def branches(units, threads=2, limits=USUAL):
    return [fork.branches for fork in find_forks(units, threads, limits)]


def sets(found):
    return [{frozenset(branch) for branch in fork} for fork in found]


def test_two_calls_that_do_not_wait_for_each_other_run_at_once():
    found = find_forks([unit(MS), unit(MS)], 2, USUAL)
    assert [fork.branches for fork in found] == [((1,), (0,))]
    assert found[0].saved_s == pytest.approx(MS - USUAL.branch_s)


def test_a_chain_has_no_branches():
    assert branches([unit(MS), unit(MS, 0), unit(MS, 1)], limits=NONE) == []


def test_towers_between_a_stem_and_a_join():
    units = [
        unit(MS),  # the stem
        *(unit(MS, 0), unit(MS, 1)),
        *(unit(MS, 0), unit(MS, 3)),
        unit(MS, 2, 4),  # the join
    ]
    assert sets(branches(units)) == [{frozenset({1, 2}), frozenset({3, 4})}]


def test_calls_of_towers_may_alternate():
    units = [unit(MS), unit(MS), unit(MS, 0), unit(MS, 1), unit(MS, 2), unit(MS, 3)]
    assert sets(branches(units)) == [{frozenset({0, 2, 4}), frozenset({1, 3, 5})}]


def test_several_forks_one_after_the_other():
    units = [unit(MS), unit(MS), unit(MS, 0, 1), unit(MS, 2), unit(MS, 2)]
    assert sets(branches(units)) == [
        {frozenset({0}), frozenset({1})},
        {frozenset({3}), frozenset({4})},
    ]


def test_the_window_that_saves_most_is_taken():
    units = [unit(MS), unit(9 * MS), unit(9 * MS), unit(MS, 0, 1, 2)]
    assert sets(branches(units)) == [{frozenset({0, 1}), frozenset({2})}]


def test_branches_are_about_as_long():
    units = [unit(seconds * MS) for seconds in (5, 4, 3, 3, 3)]
    (found,) = find_forks(units, 2, USUAL)
    assert sorted(sum(units[each].alone_s for each in branch) for branch in found.branches) == (
        pytest.approx([8 * MS, 10 * MS])
    )


def test_no_more_branches_than_threads_or_than_pay():
    units = [unit(MS)] * 4
    assert [len(fork) for fork in branches(units[:3], 3)] == [3]
    assert [len(fork) for fork in branches(units, 3)] == [2]  # a third would save nothing
    assert [len(fork) for fork in branches(units, 16)] == [4]
    assert [len(fork) for fork in branches([unit(MS), unit(MS), unit(50e-6)], 16)] == [2]


def test_one_thread_has_no_branches():
    assert branches([unit(MS), unit(MS)], 1, NONE) == []


def test_kernels_that_use_all_threads_gain_nothing():
    assert branches([unit(2 * MS, shared=MS), unit(2 * MS, shared=MS)]) == []
    assert branches([unit(1.2 * MS, shared=MS), unit(1.2 * MS, shared=MS)]) != []


@pytest.mark.parametrize(
    "units",
    [
        [unit(150e-6), unit(150e-6)],  # saves 110 us
        [unit(90e-6), unit(10 * MS)],  # a branch of 90 us
        [unit(10 * MS), unit(0.5 * MS), unit(0.5 * MS), unit(MS, 0, 1, 2)],  # a tenth
    ],
)
def test_what_does_not_pay_is_left(units):
    assert branches(units) == []
    assert branches(units, limits=NONE) != []


def test_pinned_calls_stay_together_on_the_steps_own_thread():
    pinned = unit(MS, is_pinned=True)
    assert branches([pinned, unit(3 * MS), pinned]) == [((1,), (0, 2))]


def test_nothing_runs_beside_a_barrier():
    units = [unit(MS), unit(MS, is_barrier=True), unit(MS), unit(MS)]
    assert sets(branches(units, limits=NONE)) == [{frozenset({2}), frozenset({3})}]


def test_calls_without_a_time_stay_with_those_that_they_belong_to():
    units = [unit(0), unit(MS, 0), unit(0), unit(MS, 2), unit(0)]
    (fork,) = branches(units, limits=Limits(0, MS / 2, 0, 0))
    assert sets([fork]) == [{frozenset({1}), frozenset({2, 3})}]


def test_no_branch_is_empty():
    units = [unit(MS), unit(0), unit(0), unit(MS)]
    for fork in branches(units, 4, NONE):
        assert all(fork)
        assert len(fork) == 2


def test_large_plans_are_searched_too():
    """Calls that take little join windows of those that take long."""
    units = [unit(MS if number % 40 == 0 else 1e-6) for number in range(1000)]
    found = find_forks(units, 16, USUAL)
    in_forks = [number for fork in found for branch in fork.branches for number in branch]
    assert len(in_forks) == len({*in_forks})
    assert sum(fork.saved_s for fork in found) > 0.6 * sum(each.alone_s for each in units)
    assert sorted(order_with(found, 1000)) == [*range(1000)]


def test_order_and_times_of_a_plan_with_forks():
    found = [Fork(1, ((2, 4), (1, 3))), Fork(6, ((7,), (6,)))]
    assert order_with(found, 9) == [0, 2, 4, 1, 3, 5, 7, 6, 8]
    assert times_with(found, 9) == [0, 1, 1, 1, 1, 5, 6, 6, 8]
    assert order_with([], 3) == [0, 1, 2]
    assert [fork.end for fork in found] == [5, 8]
