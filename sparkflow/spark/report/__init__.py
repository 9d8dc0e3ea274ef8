"""Reporting of a training run: progress, TensorBoard, MLflow, Spark UI."""
