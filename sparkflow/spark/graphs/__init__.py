"""Turns `model_fn` into the graphs that workers train and that `transform` runs."""
