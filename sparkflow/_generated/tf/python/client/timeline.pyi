"""Traces of steps for the browser.

Made by `scripts/generate_api.py`.
"""

from sparkflow.client.timeline import AllocationMaximum, StepStatsAnalysis, Timeline

__all__ = [
    "AllocationMaximum",
    "StepStatsAnalysis",
    "Timeline",
]
