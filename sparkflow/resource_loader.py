"""`tf.resource_loader`: files stored next to the program's modules."""

from __future__ import annotations

import os
import sys


def _folder_of_caller(depth: int) -> str:
    frame = sys._getframe(depth)
    return os.path.dirname(os.path.abspath(frame.f_code.co_filename))


def load_resource(path: str) -> bytes:
    """The contents of a file named relative to the parent of this package.

    Raises:
        OSError: It cannot be read.
    """
    root = os.path.dirname(get_root_dir_with_all_resources())
    with open(os.path.join(root, path), "rb") as stream:
        return stream.read()


def get_data_files_path() -> str:
    """The folder of the module that calls this."""
    return _folder_of_caller(2)


def get_root_dir_with_all_resources() -> str:
    """The folder of this package."""
    return os.path.dirname(os.path.abspath(__file__))


def get_path_to_datafile(path: str) -> str:
    """The path of a file named relative to the module that calls this."""
    return os.path.join(_folder_of_caller(2), path)


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path as it is; the operating system reads ahead by itself."""
    return path


__all__ = [
    "get_data_files_path",
    "get_path_to_datafile",
    "get_root_dir_with_all_resources",
    "load_resource",
    "readahead_file_path",
]
