import random

from sparkflow_runtime.device.free_ranges import FreeRanges


def test_gives_all_bytes_and_no_more():
    free = FreeRanges(100)
    assert [free.take(40), free.take(60), free.take(1)] == [0, 40, None]
    assert free.used_bytes == 100


def test_takes_the_smallest_part_that_is_large_enough():
    free = FreeRanges(100)
    assert [free.take(size) for size in (30, 10, 20, 10, 30)] == [0, 30, 40, 60, 70]
    free.give_back(0, 30)
    free.give_back(40, 20)
    assert free.take(15) == 40
    assert free.take(30) == 0


def test_what_is_given_back_grows_together_with_its_neighbours():
    free = FreeRanges(90)
    for _ in range(3):
        free.take(30)
    free.give_back(0, 30)
    free.give_back(60, 30)
    assert free.take(31) is None
    free.give_back(30, 30)
    assert free.take(90) == 0


def test_a_long_random_life_leaves_one_free_part_and_nothing_overlaps():
    random_number = random.Random(5)
    free = FreeRanges(10_000)
    owner = [0] * 10_000
    live: dict[int, tuple[int, int]] = {}
    for number in range(1, 5_000):
        if live and random_number.random() < 0.5:
            begin, size = live.pop(random_number.choice(list(live)))
            owner[begin : begin + size] = [0] * size
            free.give_back(begin, size)
            continue
        size = random_number.choice((1, 7, 64, 300, 2_000))
        begin = free.take(size)
        if begin is None:
            assert longest_gap(owner) < size
            continue
        assert not any(owner[begin : begin + size])
        owner[begin : begin + size] = [number] * size
        live[number] = begin, size
        assert free.used_bytes == sum(size for _, size in live.values())
    for begin, size in live.values():
        free.give_back(begin, size)
    assert free.used_bytes == 0
    assert free.take(10_000) == 0


def longest_gap(owner: list[int]) -> int:
    longest = run = 0
    for each in owner:
        run = 0 if each else run + 1
        longest = max(longest, run)
    return longest
