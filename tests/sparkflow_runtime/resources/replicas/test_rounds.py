"""Rounds: who counts, who finishes, who is too late. Without threads."""

import itertools
import random

import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.resources.replicas.rounds import Contribution, Outcome, Rounds

ACCEPTED, REPLACED, LATE = Outcome.ACCEPTED, Outcome.REPLACED, Outcome.LATE


def gift(replica, value="g"):
    return Contribution(replica, 1.0, value)


def finish(rounds, replica):
    contributions = rounds.begin_finish(replica)
    rounds.finish()
    return [each.replica for each in contributions]


def test_a_round_is_complete_when_all_contributed():
    rounds = Rounds(2, 2)
    assert rounds.push(gift(1)) is ACCEPTED
    assert not rounds.may_finish(1)
    assert rounds.missing == [0]
    assert rounds.push(gift(0)) is ACCEPTED
    assert rounds.may_finish(0)
    assert rounds.may_finish(1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_contributions_come_out_by_replica_in_whatever_order_they_arrived(order):
    rounds = Rounds(4, 4)
    for replica in order:
        rounds.push(gift(replica))
    assert finish(rounds, order[-1]) == [0, 1, 2, 3]
    assert rounds.step == 1


def test_the_first_replica_alone_may_finish_where_that_is_asked_for():
    rounds = Rounds(3, 3, elects_first=True)
    for replica in range(3):
        rounds.push(gift(replica))
    assert rounds.is_complete
    assert [rounds.may_finish(replica) for replica in range(3)] == [True, False, False]


def test_the_last_contribution_of_a_replica_counts():
    rounds = Rounds(1, 1)
    first, second = gift(0, "first"), gift(0, "second")
    rounds.push(first)
    assert rounds.push(second) is REPLACED
    assert rounds.holds(second)
    assert not rounds.holds(first)
    rounds.withdraw(first)
    assert rounds.begin_finish(0) == [second]


def test_backups_come_too_late_and_go_on_with_the_newest_step():
    rounds = Rounds(3, 2)
    for _ in range(2):
        for replica in (0, 2):
            assert rounds.push(gift(replica)) is ACCEPTED
        assert finish(rounds, 2) == [0, 2]
        for replica in (0, 2):
            rounds.go_on(replica)
    rounds.step_of(1)
    late = Rounds(2, 1)
    late.step_of(1)
    late.push(gift(0))
    finish(late, 0)
    assert late.push(gift(1)) is LATE
    assert late.late == 1
    late.go_on(1)
    assert late.push(gift(1)) is ACCEPTED


def test_what_was_made_for_an_older_step_elsewhere_is_late():
    rounds = Rounds(1, 1)
    rounds.push(gift(0))
    finish(rounds, 0)
    rounds.go_on(0)
    assert rounds.push(gift(0), step=0) is LATE
    assert rounds.push(gift(0), step=5) is ACCEPTED


def test_nothing_is_accepted_while_a_round_is_being_finished():
    rounds = Rounds(2, 1)
    rounds.push(gift(0))
    rounds.begin_finish(0)
    assert rounds.push(gift(1)) is LATE
    assert not rounds.is_complete


def test_a_replica_that_failed_while_it_finished_ends_the_round():
    rounds = Rounds(2, 2)
    rounds.push(gift(0))
    rounds.push(gift(1))
    rounds.begin_finish(0)
    assert rounds.push(gift(0)) is LATE
    assert (rounds.step, rounds.finisher) == (1, None)


def test_who_left_is_not_waited_for_but_what_it_contributed_counts():
    rounds = Rounds(3, 3)
    rounds.push(gift(0))
    rounds.leave(0)
    assert not rounds.is_complete
    rounds.push(gift(1))
    rounds.leave(2)
    assert rounds.may_finish(1)
    assert finish(rounds, 1) == [0, 1]
    rounds.go_on(1)
    rounds.push(gift(1))
    assert rounds.may_finish(1), "it is alone now"
    finish(rounds, 1)
    rounds.push(gift(2))
    assert rounds.missing == [1], "a replica that contributes takes part again"


def test_a_finisher_that_leaves_ends_the_round():
    rounds = Rounds(2, 2)
    rounds.push(gift(0))
    rounds.push(gift(1))
    rounds.begin_finish(1)
    rounds.leave(1)
    assert (rounds.step, rounds.finisher) == (1, None)


@pytest.mark.parametrize(("replicas", "required"), [(0, 0), (2, 0), (2, 3)])
def test_numbers_that_make_no_round(replicas, required):
    with pytest.raises(InvalidArgumentError, match=f"{replicas} replicas was to need {required}"):
        Rounds(replicas, required)


@pytest.mark.parametrize("seed", range(200))
def test_random_events_obey_the_rules(seed):
    """Against a model with lists: every contribution is used at most once, and in time."""
    chance = random.Random(seed)
    count = chance.randint(1, 4)
    required = chance.randint(1, count)
    rounds = Rounds(count, required, elects_first=chance.random() < 0.5)
    pushed, used, active = [], [], set(range(count))
    for number in range(60):
        replica = chance.randrange(count)
        event = chance.choice(["push", "push", "push", "finish", "leave", "withdraw"])
        before = rounds.step
        if event == "push" and rounds.finisher is None:
            rounds.go_on(replica)
            active.add(replica)
            contribution = gift(replica, number)
            outcome = rounds.push(contribution)
            assert outcome is not LATE
            pushed.append((rounds.step, contribution))
        elif event == "withdraw" and pushed:
            rounds.withdraw(pushed[-1][1])
        elif event == "leave":
            rounds.leave(replica)
            active.discard(replica)
            assert replica not in rounds.missing
        elif event == "finish" and rounds.may_finish(replica):
            contributions = rounds.begin_finish(replica)
            there = active | {each.replica for each in contributions}
            assert len(contributions) >= min(required, len(there))
            replicas = [each.replica for each in contributions]
            assert replicas == sorted(set(replicas))
            for each in contributions:
                assert (before, each) in pushed, "it was made for this very step"
                assert each.value not in used
                used.append(each.value)
            rounds.finish()
            assert rounds.step == before + 1
        assert rounds.step in (before, before + 1)
    assert rounds.late == 0


def test_who_has_joined_is_waited_for_though_fewer_would_do():
    rounds = Rounds(3, 2)
    for replica in range(3):
        rounds.leave(replica)
    for replica in (0, 1, 2):
        rounds.join(replica)
    rounds.push(Contribution(0, 1.0, None))
    assert not rounds.is_complete
    assert rounds.missing == [1, 2]
    rounds.push(Contribution(2, 1.0, None))
    assert rounds.is_complete
