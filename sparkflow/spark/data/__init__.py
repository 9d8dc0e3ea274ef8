"""Rows from a DataFrame, Parquet or TFRecord files to the batches of a step."""
