"""The parameters of estimators and models as pyspark.ml Params, grouped by topic."""
