"""`tf.random`: random tensors under their newer names, and the seeds behind them."""

from sparkflow.absent import answers
from sparkflow.ops.candidate_sampling import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from sparkflow.ops.random import (
    categorical,
    get_seed as _seeds,
    multinomial,
    random_crop,
    random_gamma,
    random_normal,
    random_poisson,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from sparkflow.ops.stateless_random import (
    stateless_categorical,
    stateless_multinomial,
    stateless_random_gamma,
    stateless_random_normal,
    stateless_random_poisson,
    stateless_random_uniform,
    stateless_truncated_normal,
)

gamma = random_gamma
normal = random_normal
poisson = random_poisson
shuffle = random_shuffle
stateless_gamma = stateless_random_gamma
stateless_normal = stateless_random_normal
stateless_poisson = stateless_random_poisson
stateless_uniform = stateless_random_uniform
uniform = random_uniform


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The two seeds that a random op made now with `seed=op_seed` has.

    Both None where neither the graph nor the op has a seed: the numbers differ every time.
    """
    seeds = _seeds(op_seed)
    return (None, None) if seeds == (0, 0) else seeds


__getattr__ = answers("random")

__all__ = [
    "all_candidate_sampler",
    "categorical",
    "fixed_unigram_candidate_sampler",
    "gamma",
    "get_seed",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "multinomial",
    "normal",
    "poisson",
    "random_crop",
    "random_gamma",
    "random_normal",
    "random_poisson",
    "random_shuffle",
    "random_uniform",
    "set_random_seed",
    "shuffle",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_multinomial",
    "stateless_normal",
    "stateless_poisson",
    "stateless_random_gamma",
    "stateless_random_normal",
    "stateless_random_poisson",
    "stateless_random_uniform",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]
