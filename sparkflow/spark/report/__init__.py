"""What people see of a training run: progress, TensorBoard, MLflow, Spark UI."""
