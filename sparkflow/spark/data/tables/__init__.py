"""Delta Lake and Iceberg tables: a snapshot's Parquet files and their columns."""
