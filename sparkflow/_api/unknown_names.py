"""Error texts for names that a module does not have: a replacement, or a similar name.

Imported only when somebody asks for such a name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sparkflow._api.absent import ABSENT, instead_of


def describe(module: str, name: str, known: Iterable[str]) -> str:
    """The text of the AttributeError.

    Args:
        module: The module's name.
        name: What was asked for.
        known: What the module has.
    """
    shown = "tf" + module.removeprefix("sparkflow")
    text = f"module {module!r} has no attribute {name!r}"
    inner = module.removeprefix("sparkflow").lstrip(".")
    path = f"{inner}.{name}" if inner else name
    hint = instead_of(path)
    # A pattern of names stands for misspelt ones, too.
    close = (
        closest(name, (each for each in known if not each.startswith("_")))
        if path not in ABSENT
        else []
    )
    if not close:
        return text if hint is None else f"{text}: {hint}"
    text += f". Did you mean {' or '.join(f'{shown}.{each}' for each in close)}?"
    return text if hint is None else f"{text} If not: {hint}"


def closest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names that this one may be a misspelling of, the nearest first."""
    plain: dict[str, list[str]] = {}
    for each in sorted(known):
        plain.setdefault(each.lower().replace("_", ""), []).append(each)
    wanted = name.lower().replace("_", "")
    if wanted in plain:
        return plain[wanted][:3]
    longer = [key for key in plain if len(wanted) > 3 and key.startswith(wanted)]
    near = longer or difflib.get_close_matches(wanted, list(plain), n=3, cutoff=0.75)
    return [each for key in near for each in plain[key]][:3]
