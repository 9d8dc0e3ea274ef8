"""TensorFlow 1's programming model: `import sparkflow as tf`.

Build a graph with the functions here, run it with a `Session`. Everything is re-exported by name;
the code is in the modules. What there is stands in `__init__.pyi`, for people, type checkers and
the loader alike: modules are imported when a name of theirs is first used, so that a process that
only serves a part of this starts quickly. Training from a Spark DataFrame is in `sparkflow.spark`.
`__version__` is that of the TensorFlow whose interface this is, see `sparkflow.version`.
"""

import lazy_loader

from sparkflow.version import VERSION

__version__ = VERSION

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
