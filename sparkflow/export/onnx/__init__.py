"""From TensorFlow's graphs to ONNX: a table with one entry per op; `convert` walks the graph."""
