"""Parquet files that workers read themselves, without Spark and the JVM."""
