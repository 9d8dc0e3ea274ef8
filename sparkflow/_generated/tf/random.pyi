"""`tf.random`: random tensors under their newer names, and the seeds behind them.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.random.stateless_random import stateless_multinomial
from sparkflow.embedding.candidate_sampling import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from sparkflow.ops.random.random import (
    categorical,
    get_seed,
    multinomial,
    random_crop,
    random_gamma as gamma,
    random_gamma,
    random_normal as normal,
    random_normal,
    random_poisson as poisson,
    random_poisson,
    random_shuffle,
    random_shuffle as shuffle,
    random_uniform,
    random_uniform as uniform,
    set_random_seed,
    truncated_normal,
)
from sparkflow.ops.random.stateless_random import (
    stateless_categorical,
    stateless_random_gamma as stateless_gamma,
    stateless_random_gamma,
    stateless_random_normal as stateless_normal,
    stateless_random_normal,
    stateless_random_poisson as stateless_poisson,
    stateless_random_poisson,
    stateless_random_uniform,
    stateless_random_uniform as stateless_uniform,
    stateless_truncated_normal,
)

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
