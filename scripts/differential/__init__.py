"""The lines of Python that TensorFlow and sparkflow must answer alike, a module per family."""
