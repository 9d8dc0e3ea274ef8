import pytest

from support import bad_network
from support.bad_network import FAULTS, Weather
from support.clocks import give_time

PIECES = [bytes([each]) * 20 for each in range(1, 7)]


def passed(fault: str) -> list[bytes | None]:
    """Returns the outcome of some pieces, the second of which has a fault."""
    weather = Weather(seed=1, share=1.0, faults=(fault,), most=1)
    calm = Weather(seed=1, share=0.0)
    direction = calm.disturbance()
    found = []
    for number, piece in enumerate(PIECES):
        direction._weather = weather if number == 1 else calm
        found.append(direction(piece))
    assert weather.counts == {fault: 1}
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_what_it_is_called(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    give_time(monkeypatch, bad_network, sleep=slept.append)
    found = passed(fault)
    whole = b"".join(each or b"" for each in found)
    first, second, third, *rest = PIECES
    assert found[0] == first
    assert found[3:] == rest
    match fault:
        case "drop":
            assert found[1:3] == [b"", third]
        case "delay":
            assert found == PIECES
            assert 0 < slept[0] <= bad_network.MOST_DELAY_S
        case "swap":
            assert found[1:3] == [b"", third + second]
        case "repeat":
            assert found[1] is not None
            assert found[1].startswith(second)
            assert len(found[1]) > len(second)
        case "flip":
            assert whole != b"".join(PIECES)
            assert sum(a != b for a, b in zip(whole, b"".join(PIECES), strict=True)) == 1
        case "cut":
            assert found[1] is None


def test_one_of_a_hundred() -> None:
    weather = Weather(seed=2)
    direction = weather.disturbance()
    for _ in range(20_000):
        weather.draw()
    assert weather.pieces == 20_000
    assert 140 < weather.counts.total() < 260
    assert set(weather.counts) == set(FAULTS)
    assert direction is not weather.disturbance()
