"""The history of a training, as values, tables and plots. Independent of runs."""
