"""Fails if two wheels differ, or if their metadata has links that only work in the repository.

python compare_release.py FROM_SDIST.whl DIRECT.whl
"""

from __future__ import annotations

import email
import re
import sys
import zipfile
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=[\"']([^\"']+)")


def contents(wheel: str) -> dict[str, bytes]:
    """Returns the files of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def relative_addresses(metadata: email.message.Message) -> list[str]:
    """Returns links of the description and the project that are not absolute."""
    text = str(metadata.get_payload())
    found = [
        one or other for one, other in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S))
    ]
    found += [line.split(", ", 1)[1] for line in metadata.get_all("Project-URL", [])]
    return [each for each in found if not each.startswith(("https://", "#"))]


def main() -> int:
    """Runs the script; returns its exit status."""
    first, second = map(contents, sys.argv[1:])
    problems = [f"only one wheel has {name}" for name in sorted(first.keys() ^ second.keys())]
    both = first.keys() & second.keys()
    problems += [f"{name} differs" for name in sorted(both) if first[name] != second[name]]
    (name,) = (each for each in first if each.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(first[name])
    urls = metadata.get_all("Project-URL", [])
    for label in ("Homepage", "Documentation", "Changelog", "Issues"):
        if not any(each.startswith(f"{label}, ") for each in urls):
            problems.append(f"there is no project URL {label}")
    problems += [f"not absolute: {each}" for each in relative_addresses(metadata)]
    size = Path(sys.argv[1]).stat().st_size
    for each in problems:
        print(each, file=sys.stderr)
    if not problems:
        print(f"{len(first)} files, {size / 1e6:.1f} MB, the same from the sdist as from the tree")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
