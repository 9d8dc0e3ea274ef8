"""Traces of steps for the browser.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.client.timeline": "AllocationMaximum StepStatsAnalysis Timeline",
    },
)
