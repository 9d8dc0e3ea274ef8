"""The programs of README.md and of documentation pages, as run by tests."""

# ruff: noqa: S102  (the code that is run is our own documentation)

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.+?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str, replaced: Mapping[str, str] | None = None) -> list[CodeType]:
    """Returns the Python blocks of a page, compiled, so that errors name the page's line.

    Args:
        page: Its path from the root of the repository.
        replaced: Texts of the page and what a test runs instead, such as fewer rows or a writable
            folder. They must occur in the page.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    for said, done in (replaced or {}).items():
        assert said in text, f"{page} does not say {said!r}"
        text = text.replace(said, done)
    return [
        compile("\n" * text.count("\n", 0, match.start(1)) + match[1], ROOT / page, "exec")
        for match in BLOCK.finditer(text)
    ]


def run(
    page: str,
    replaced: Mapping[str, str] | None = None,
    given: Mapping[str, object] | None = None,
    only: Sequence[int] | None = None,
) -> dict[str, object]:
    """Runs the blocks of a page one after another; returns the names that they have defined.

    Each begins with the names defined by those before it.

    Args:
        page: As above.
        replaced: As above.
        given: Names that the page assumes to be defined.
        only: The numbers of the blocks to run; all by default.
    """
    names: dict[str, object] = {"__name__": "example", **(given or {})}
    compiled = blocks(page, replaced)
    for number in range(len(compiled)) if only is None else only:
        exec(compiled[number], names)
    return names
