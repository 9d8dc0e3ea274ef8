"""The assembly of kernels for processors that are not available: it is read, not run."""

import re
from collections.abc import Iterator

import pytest

from sparkflow_runtime.codegen.machine import linking
from sparkflow_runtime.codegen.machine.host import Host

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
PROCESSORS = {
    "avx512": (X86, "skylake-avx512", 64, r"vfmadd\d+ps\s.*%zmm", r"zmm.*\(%rsp|\(%rsp.*zmm"),
    "avx2": (X86, "haswell", 32, r"vfmadd\d+ps\s.*%ymm", r"ymm.*\(%rsp|\(%rsp.*ymm"),
    "neon": (ARM, "neoverse-n1", 16, r"fmla\s+v\d+\.4s", r"\bq\d+, .*\[sp"),
}
"""By name: LLVM's platform and processor, bytes per vector, a fused multiply-add, a spill."""


def processor(name: str) -> Host:
    """A processor of `PROCESSORS`; skips the test if code for it cannot be generated."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, cpu, vector_bytes, _, _ = PROCESSORS[name]
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"llvmlite was built without {triple}")
    machine = target.create_target_machine(cpu=cpu, opt=2)
    return Host(triple, cpu, "", vector_bytes, True, machine)


def blocks(name: str, text: str, is_tidy: bool = True) -> Iterator[list[str]]:
    """The straight-line parts of the assembly, each a list of instructions."""
    here = processor(name)
    assembly = here.machine.emit_assembly(linking.optimised(text, here, is_tidy))
    block: list[str] = []
    for line in assembly.splitlines():
        if re.match(r"\.?\w+:", line):
            yield block
            block = []
        elif line.startswith("\t") and not line.startswith("\t."):
            block.append(line.strip())
    yield block


def count(pattern: str, block: list[str]) -> int:
    """How many instructions match a regular expression."""
    return sum(re.search(pattern, line) is not None for line in block)
