"""The parameters of estimators and models as pyspark.ml Params, by what they are about."""
