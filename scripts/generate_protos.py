"""Generates the protobuf modules of the runtime from proto/, or checks that they are up to date.

    python scripts/generate_protos.py           # rewrites the generated modules
    python scripts/generate_protos.py --check   # writes nothing; exits with 1 if a file differs

It runs in an environment with exactly the compiler named in COMPILER, because the output of newer
compilers does not import under protobuf 5 (design, section 1):

    pip install grpcio-tools==1.68.1 mypy-protobuf==3.6.0 "setuptools<81"

Only messages are generated. Services are registered by hand in the transport.
"""

import argparse
import contextlib
import importlib
import io
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

COMPILER = {"grpcio-tools": "1.68.1", "mypy-protobuf": "3.6.0"}
ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "proto"
PACKAGE = Path("sparkflow_runtime/protos")
TARGET_DIR = ROOT / "runtime" / PACKAGE


class GenerationError(Exception):
    """The compiler is missing, has another version, or rejected a .proto file."""


def check_compiler() -> None:
    """Raises GenerationError unless the installed compiler is the one in COMPILER."""
    for distribution, wanted in COMPILER.items():
        try:
            found = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found = "none"
        if found != wanted:
            raise GenerationError(
                f"{distribution}=={wanted} is needed, found {found} in {sys.prefix}. Install it in "
                f"an environment of its own: pip install "
                + " ".join(f"{name}=={version}" for name, version in COMPILER.items())
                + ' "setuptools<81"'
            )


def generate(output_dir: Path) -> None:
    """Compiles every .proto file of the package to *_pb2.py and *_pb2.pyi below output_dir."""
    protoc = importlib.import_module("grpc_tools.protoc")
    well_known = Path(str(protoc.__file__)).parent / "_proto"
    mypy_plugin = shutil.which("protoc-gen-mypy", path=str(Path(sys.executable).parent))
    if mypy_plugin is None:
        raise GenerationError(f"no protoc-gen-mypy beside {sys.executable}")
    sources = sorted(path.relative_to(PROTO_DIR) for path in (PROTO_DIR / PACKAGE).glob("*.proto"))
    arguments = [
        "protoc",
        f"--proto_path={PROTO_DIR}",
        f"--proto_path={well_known}",
        f"--plugin=protoc-gen-mypy={mypy_plugin}",
        f"--python_out={output_dir}",
        f"--mypy_out=quiet:{output_dir}",
        *(source.as_posix() for source in sources),
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        status = protoc.main(arguments)
    if status != 0:
        raise GenerationError(f"protoc exited with {status}")


def read_generated(package_dir: Path) -> dict[str, bytes]:
    """Returns file name -> content of the generated files in a directory."""
    files = sorted([*package_dir.glob("*_pb2.py"), *package_dir.glob("*_pb2.pyi")])
    return {path.name: path.read_bytes() for path in files}


def differing(expected: dict[str, bytes], actual: dict[str, bytes]) -> list[str]:
    """Returns one line for each file that is missing, stale or different."""
    lines = [f"missing: {name}" for name in sorted(expected.keys() - actual.keys())]
    lines += [f"no .proto file: {name}" for name in sorted(actual.keys() - expected.keys())]
    lines += [
        f"differs: {name}"
        for name in sorted(expected.keys() & actual.keys())
        if expected[name] != actual[name]
    ]
    return lines


def main() -> int:
    """Runs the script; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; write nothing")
    check_only: bool = parser.parse_args().check
    try:
        check_compiler()
        with tempfile.TemporaryDirectory() as temporary:
            generate(Path(temporary))
            expected = read_generated(Path(temporary) / PACKAGE)
    except GenerationError as error:
        print(f"generate_protos: {error}", file=sys.stderr)
        return 2
    changes = differing(expected, read_generated(TARGET_DIR))
    for line in changes:
        print(line)
    if check_only:
        if changes:
            print("run scripts/generate_protos.py and commit what it writes", file=sys.stderr)
        return 1 if changes else 0
    TARGET_DIR.mkdir(parents=True, exist_ok=True)
    for name in read_generated(TARGET_DIR).keys() - expected.keys():
        (TARGET_DIR / name).unlink()
    for name, content in expected.items():
        # A file that did not change keeps its time stamp.
        if not (TARGET_DIR / name).exists() or (TARGET_DIR / name).read_bytes() != content:
            (TARGET_DIR / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
