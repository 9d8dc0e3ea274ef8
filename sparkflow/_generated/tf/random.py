"""`tf.random`: random tensors under their newer names, and the seeds behind them.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.random.stateless_random": "stateless_multinomial",
        "sparkflow.embedding.candidate_sampling": (
            "all_candidate_sampler fixed_unigram_candidate_sampler "
            "learned_unigram_candidate_sampler log_uniform_candidate_sampler "
            "uniform_candidate_sampler"
        ),
        "sparkflow.ops.random.random": (
            "categorical get_seed multinomial random_crop random_gamma:gamma random_gamma "
            "random_normal:normal random_normal random_poisson:poisson random_poisson "
            "random_shuffle random_shuffle:shuffle random_uniform random_uniform:uniform "
            "set_random_seed truncated_normal"
        ),
        "sparkflow.ops.random.stateless_random": (
            "stateless_categorical stateless_random_gamma:stateless_gamma "
            "stateless_random_gamma stateless_random_normal:stateless_normal "
            "stateless_random_normal stateless_random_poisson:stateless_poisson "
            "stateless_random_poisson stateless_random_uniform "
            "stateless_random_uniform:stateless_uniform stateless_truncated_normal"
        ),
    },
)
