import random

import pytest

from sparkflow_runtime.compiler.memory import Life, lay_out
from sparkflow_runtime.device.host_memory import ALIGNMENT_BYTES


def peak(lives: list[Life]) -> int:
    """Returns the maximum memory needed at one position."""
    ends = range(max((life.end for life in lives), default=-1) + 1)
    return max(
        (sum(aligned(life) for life in lives if life.begin <= at <= life.end) for at in ends),
        default=0,
    )


def aligned(life: Life) -> int:
    return -(-life.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def test_nothing_needs_nothing() -> None:
    assert lay_out([]).size_bytes == 0
    assert lay_out([Life(0, 0, 5), Life(64, 0, 5)]).size_bytes == 64


def test_values_that_never_meet_share_a_place() -> None:
    chain = [Life(1000, at, at + 1) for at in range(6)]
    layout = lay_out(chain)
    assert layout.size_bytes == 2 * 1024
    assert layout.offsets == (0, 1024) * 3


def test_a_value_read_where_another_is_written_keeps_its_place() -> None:
    assert lay_out([Life(64, 0, 1), Life(64, 1, 2)]).offsets == (0, 64)
    assert lay_out([Life(64, 0, 1), Life(64, 2, 3)]).offsets == (0, 0)


def test_a_hole_between_long_lives_is_filled_by_what_fits_best() -> None:
    lives = [Life(512, 0, 9), Life(256, 0, 3), Life(128, 0, 9), Life(64, 4, 9), Life(192, 4, 9)]
    layout = lay_out(lives)
    assert layout.size_bytes == 512 + 256 + 128
    assert {layout.offsets[3], layout.offsets[4]} == {512 + 192, 512}


@pytest.mark.parametrize("seed", range(50))
def test_living_pieces_never_overlap(seed: int) -> None:
    choose = random.Random(seed)
    lives = []
    for _ in range(choose.randint(1, 40)):
        begin = choose.randrange(30)
        lives.append(Life(choose.choice([0, 4, 64, 100, 4096]), begin, begin + choose.randrange(8)))
    layout = lay_out(lives)
    places = list(zip(lives, layout.offsets, strict=True))
    for number, (life, offset) in enumerate(places):
        assert offset % ALIGNMENT_BYTES == 0
        assert offset + life.size_bytes <= layout.size_bytes
        for other, place in places[:number]:
            if other.begin <= life.end and life.begin <= other.end:
                assert place + other.size_bytes <= offset or offset + life.size_bytes <= place
    assert peak(lives) <= layout.size_bytes <= 2 * peak(lives)
