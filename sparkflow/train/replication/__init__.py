"""How replicas train together: synchronous, stale, by all-reduce, accumulated."""
