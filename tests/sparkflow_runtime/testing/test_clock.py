from sparkflow_runtime.testing.clock import FakeClock


def test_time_passes_when_the_test_says_so() -> None:
    clock = FakeClock()
    assert clock() == clock() == 0.0
    clock.advance(2.5)
    assert clock() == 2.5
