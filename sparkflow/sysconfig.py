"""`tf.sysconfig`: what a build script asks; sparkflow has no C++ headers and no shared library."""

from __future__ import annotations

import os

from sparkflow._api.loading import answers
from sparkflow.version import CXX11_ABI_FLAG, CXX_VERSION, MONOLITHIC_BUILD


def get_include() -> str:
    """The folder of headers; it does not exist, user ops are written in Python."""
    return os.path.join(get_lib(), "include")


def get_lib() -> str:
    """The folder of the package."""
    return os.path.dirname(os.path.abspath(__file__))


def get_compile_flags() -> list[str]:
    """No flags: there is nothing to compile against."""
    return []


def get_build_info() -> dict[str, bool]:
    """Build options: there are none, as GPU kernels are compiled when they first run."""
    return {"is_cuda_build": False, "is_rocm_build": False, "is_tensorrt_build": False}


def get_link_flags() -> list[str]:
    """No flags: there is nothing to link with."""
    return []


__getattr__ = answers("sysconfig")

__all__ = [
    "CXX11_ABI_FLAG",
    "CXX_VERSION",
    "MONOLITHIC_BUILD",
    "get_build_info",
    "get_compile_flags",
    "get_include",
    "get_lib",
    "get_link_flags",
]
