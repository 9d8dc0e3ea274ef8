"""Lines of Python with the same results in TensorFlow and sparkflow, a module per family."""
