"""Draws arguments of random programs, as text. Each family has a seed, so that files stay equal."""

from random import Random


def array(random: Random, shape: list[int], low: float, high: float, dtype: str) -> str:
    """`np.array(...)` of numbers in [low, high]; of two digits where they are real."""
    size = 1
    for each in shape:
        size *= each
    if dtype.startswith("float"):
        numbers = [round(random.uniform(low, high), 2) for _ in range(size)]
    elif dtype == "bool_":
        numbers = [random.randint(0, 1) for _ in range(size)]
    else:
        numbers = [random.randint(int(low), int(high)) for _ in range(size)]
    return f"np.array({numbers}, np.{dtype}).reshape({tuple(shape)})"


def weights_shape(random: Random, shape: list[int]) -> list[int]:
    """A shape that may fit values of a shape: broadcast, one rank more or less, or another."""
    return random.choice(
        [
            [],
            [1 if random.random() < 0.4 else size for size in shape],
            shape,
            [*shape, 1],
            shape[:-1],
            [random.choice([1, 2, size]) for size in shape],
            [random.choice([1, 2, 3]) for _ in range(random.randint(0, 3))],
        ]
    )


def keywords(arguments: dict[str, str]) -> str:
    """`, name=value, ...`."""
    return "".join(f", {name}={value}" for name, value in arguments.items())
