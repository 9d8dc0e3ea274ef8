"""Tests that the first process misses only successful set-ups and tear-downs."""

import pytest

from support.messages import worth_telling


def report(
    when: str, outcome: str, duration: float = 0.001, measured: tuple[tuple[str, str], ...] = ()
) -> pytest.TestReport:
    return pytest.TestReport(
        "test_it",
        ("test_it.py", 1, "it"),
        {},
        outcome,
        None,
        when,
        (),
        duration,
        user_properties=measured,
    )


@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_a_tests_own_outcome_is_told(outcome):
    assert worth_telling(report("call", outcome))


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_what_is_around_it_is_told_where_it_fails_skips_or_takes_long(when):
    assert worth_telling(report(when, "failed"))
    assert worth_telling(report(when, "skipped"))
    assert worth_telling(report(when, "passed", duration=2.0))
    assert not worth_telling(report(when, "passed"))
    assert worth_telling(report(when, "passed", measured=(("seconds", "1.5"),)))
