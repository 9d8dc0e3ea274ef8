"""Writes the modules of the surface, which re-export names of other modules, and the stubs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from sparkflow._api.faces import CONTRIB, FACES, MODULES, PACKAGES

Public = Mapping[str, tuple[str, str]]
MADE = "Made by `scripts/generate_api.py`"


def face_files(public: Public) -> dict[str, str]:
    """Returns the texts of the surface's modules and stubs, by path below `sparkflow/`."""
    files = {
        "_generated/__init__.py": f'"""{MADE}; nothing in here is written by hand."""\n',
        "_generated/tf/__init__.py": _PACKAGE,
        "_generated/names.py": _names(public),
        "_generated/packages.py": _packages(public),
        "__init__.pyi": _stub(_ROOT_DOC, public, "", submodules=_top_level()),
        "contrib/__init__.pyi": _stub(
            f'"""The parts of `tf.contrib`. {MADE}."""',
            {},
            "contrib",
            submodules=dict.fromkeys(CONTRIB.split(), "sparkflow.contrib"),
        ),
    }
    for package, inside in PACKAGES.items():
        doc = f'"""What `tf.{package}` offers, by module that defines it. {MADE}."""'
        submodules = dict.fromkeys(inside.split(), f"sparkflow.{package}")
        files[f"{package}/__init__.pyi"] = _stub(doc, public, package, submodules)
    for face, doc in FACES.items():
        children = [each for each in FACES if each.rpartition(".")[0] == face]
        path = PurePosixPath("_generated/tf", *face.split("."))
        where = f"{path}/__init__" if children else f"{path}"
        submodules = {
            each.rpartition(".")[2]: f"sparkflow._generated.tf.{face}" for each in children
        }
        text = f'"""{doc}\n\n{MADE}.\n"""'
        files[f"{where}.py"] = _face(text, public, face, submodules)
        files[f"{where}.pyi"] = _stub(text, public, face, submodules)
    return files


_ROOT_DOC = f'''"""What `import sparkflow as tf` offers, by module that defines it.

{MADE}.
"""'''
_PACKAGE = f'''"""`tf.math`, `tf.nn` and their like, of which every name is defined elsewhere.

`sparkflow/__init__.py` has this folder on its path: `sparkflow.math` is `math` in here.
{MADE}.
"""
'''


def _top_level() -> dict[str, str]:
    found = dict.fromkeys(MODULES.split(), "sparkflow")
    found |= {face: "sparkflow._generated.tf" for face in FACES if "." not in face}
    return found


def _homes(public: Public, face: str) -> dict[str, list[tuple[str, str]]]:
    """Returns pairs of names (in the module, in the face) for each defining module."""
    homes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, (module, name) in public.items():
        parent, _, last = path.rpartition(".")
        if parent == face:
            homes[module].append((name, last))
    return {module: sorted(homes[module]) for module in sorted(homes)}


def _dictionary(public: Public, face: str) -> str:
    lines = []
    for module, names in _homes(public, face).items():
        listed = " ".join(name if name == last else f"{name}:{last}" for name, last in names)
        lines.append(f'"{module}": {_wrapped(listed)},')
    return "{\n" + "\n".join(lines) + "\n}"


def _wrapped(text: str) -> str:
    """Returns a string literal in parts that fit a line."""
    parts, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) > 80:
            parts.append(line)
            line = ""
        line += word + " "
    parts.append(line.rstrip())
    literals = [f'"{each}"' for each in parts]
    return literals[0] if len(parts) == 1 else "(\n" + "\n".join(literals) + "\n)"


def _face(doc: str, public: Public, face: str, submodules: Iterable[str]) -> str:
    inside = f', "{" ".join(sorted(submodules))}"' if submodules else ""
    return (
        f"{doc}\n\nfrom sparkflow._api.loading import face\n\n"
        f"__getattr__, __dir__, __all__ = face(__name__, {_dictionary(public, face)}{inside})\n"
    )


def _names(public: Public) -> str:
    top = " ".join(sorted(_top_level()))
    return (
        f'"""The names of `tf.`, see `sparkflow/__init__.py`. {MADE}."""\n\n'
        "from collections.abc import Mapping\nfrom typing import Final\n\n"
        f"HOMES: Final[Mapping[str, str]] = {_dictionary(public, '')}\n"
        '"""Per module that defines something, what it gives to `tf.`."""\n\n'
        f"MODULES: Final = {_wrapped(top)}\n"
        '"""The modules in `tf.`."""\n\n'
        f"CONTRIB: Final = {_wrapped(CONTRIB)}\n"
        '"""The modules in `tf.contrib.`."""\n'
    )


def _packages(public: Public) -> str:
    tables = [f'"{each}": {_dictionary(public, each)},' for each in PACKAGES]
    submodules = [f'"{each}": "{inside}",' for each, inside in PACKAGES.items()]
    return (
        f'"""The names of packages that have code of their own beside them. {MADE}."""\n\n'
        "from collections.abc import Mapping\nfrom typing import Final\n\n"
        "HOMES: Final[Mapping[str, Mapping[str, str]]] = {\n" + "\n".join(tables) + "\n}\n"
        '"""Per package and module that defines something, the names."""\n\n'
        "SUBMODULES: Final[Mapping[str, str]] = {\n" + "\n".join(submodules) + "\n}\n"
        '"""Per package the modules in it that are public."""\n'
    )


def _stub(doc: str, public: Public, face: str, submodules: Mapping[str, str]) -> str:
    places: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, parent in submodules.items():
        places[parent].append((name, name))
    places = {parent: sorted(places[parent]) for parent in sorted(places)}
    places |= _homes(public, face)
    lines = [doc, ""]
    for module, names in places.items():
        listed = [name if name == last else f"{name} as {last}" for name, last in names]
        lines.append(f"from {module} import {', '.join(listed)}")
    offered = sorted(last for names in places.values() for _, last in names)
    listed = [f'    "{name}",' for name in offered]
    return "\n".join([*lines, "", "__all__ = [", *listed, "]", ""])
