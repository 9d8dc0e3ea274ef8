"""Random numbers that a seed of two integers determines, in every run the same."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "StatelessMultinomial",
        "random.stateless_multinomial",
        "logits, num_samples, seed, output_dtype=int64",
        "Classes drawn with the probabilities softmax(logits): [batch, num_samples].",
        node="stateless_multinomial",
    ),
)
