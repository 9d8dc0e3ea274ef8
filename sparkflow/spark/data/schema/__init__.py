"""What rows consist of, in Spark, in Arrow and as arrays; how one becomes the other."""
