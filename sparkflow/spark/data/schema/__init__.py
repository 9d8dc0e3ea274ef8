"""The formats of rows in Spark, in Arrow and as arrays, and conversions between them."""
