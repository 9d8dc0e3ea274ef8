"""What is said of a name that a module does not have: what to use instead, or what was meant.

Imported only when somebody asks for such a name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sparkflow.absent import instead_of


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
    hint = instead_of(f"{inner}.{name}" if inner else name)
    if hint is not None:
        return f"{text}: {hint}"
    public = {each for each in known if not each.startswith("_")}
    close = closest(name, public)
    if close:
        text += f". Did you mean {' or '.join(f'{shown}.{each}' for each in close)}?"
    return text


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
