"""Parquet files that workers read themselves, without Spark or a JVM."""
