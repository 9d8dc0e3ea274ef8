"""See `sparkflow.client.timeline`."""

from sparkflow.client.timeline import AllocationMaximum, StepStatsAnalysis, Timeline

__all__ = ["AllocationMaximum", "StepStatsAnalysis", "Timeline"]
