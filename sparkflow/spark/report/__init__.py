"""What people see of a training run: history, progress, TensorBoard, Spark UI."""
