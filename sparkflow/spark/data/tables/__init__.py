"""Tables of Delta Lake and Iceberg: a snapshot's Parquet files and what each has of its columns."""
