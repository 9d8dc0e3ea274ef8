"""`tf.version`: the TensorFlow version of the interface, and the version of sparkflow.

Programs compare `tf.VERSION` and `tf.__version__` to choose between spellings of TensorFlow 1, so
both say 1.15.0: the newest release whose interface sparkflow offers. The version of sparkflow
itself is `SPARKFLOW_VERSION`.
"""

SPARKFLOW_VERSION = "0.1.0"
"""The version of this package."""
VERSION = "1.15.0"
"""The TensorFlow whose interface this is."""
GIT_VERSION = f"sparkflow-v{SPARKFLOW_VERSION}"
"""What stands where TensorFlow has the commit that it was built from."""
COMPILER_VERSION = ""
"""Empty: nothing was compiled before it was installed."""
CXX11_ABI_FLAG = 0
"""0: there is no C++ to link with."""
CXX_VERSION = 0
"""0, likewise."""
MONOLITHIC_BUILD = 0
"""0, likewise."""
GRAPH_DEF_VERSION = 134
"""The version of GraphDef that TensorFlow 1.15 writes."""
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
"""The oldest reader for whom graphs are written."""
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
"""The oldest writer whose graphs are read."""

__all__ = [
    "COMPILER_VERSION",
    "GIT_VERSION",
    "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER",
    "SPARKFLOW_VERSION",
    "VERSION",
]
