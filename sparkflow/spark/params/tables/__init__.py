"""The rows of the table of parameters, by what they are about; no pyspark."""
