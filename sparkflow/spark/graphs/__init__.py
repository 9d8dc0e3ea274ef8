"""From `model_fn` to the graphs that workers train with and that `transform` runs."""
