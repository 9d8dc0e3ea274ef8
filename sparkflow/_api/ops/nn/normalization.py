"""Moments, batch normalisation in one op or in many, local response normalisation."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "LRN",
        "nn.local_response_normalization nn.lrn",
        "input, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5",
        "Images divided by (bias + alpha · Σ of the squares of the channels around)^beta.",
    ),
)
