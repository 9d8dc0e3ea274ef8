"""Pages, docstrings and comments name only what exists: files, headings, decisions."""

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607  (on PATH)
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.splitlines()
TEXTS = [
    path
    for path in TRACKED
    if path.endswith((".md", ".py", ".pyi", ".sh", ".toml", ".proto")) and (ROOT / path).exists()
]
PAGES = [path for path in TEXTS if path.endswith(".md")]

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(
    r"(?<![\w./@:-])((?:docs|tests|scripts|examples|benchmarks|docker|runtime|sparkflow)"
    r"/[\w./-]*[\w-]\.(?:md|py|pyi|sh|json|npz|png|svg|ipynb|txt|toml))\b"
)
"""A file of the repository, named relative to its root."""

ELSEWHERE = re.compile(
    r"\b[Dd]esign,? \(?D\d+|\bD\d+ (?:of the design|asks|had|is)\b"
    r"|\b(?:redesign|design|features|style)\.md\b|\b[Ii]ssue #?\d+"
)
"""Documents that are not in the repository."""

DECISION = re.compile(r"\bADR (\d{4})\b|\badr/(\d{4})\b")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def without_code(text: str) -> str:
    """Returns the page with its code blanked out, which has no links; lines keep their numbers."""
    blank = functools.partial(re.sub, r"[^\n]", " ")
    text = re.sub(r"^```.*?^```", lambda m: blank(m[0]), text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda m: " " * len(m[0]), text)


@functools.cache
def headings(path: Path) -> set[str]:
    """Returns the anchors of a page, as created by GitHub."""
    found: dict[str, int] = {}
    anchors = set()
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = found.get(anchor, 0)
        found[anchor] = count + 1
        anchors.add(f"{anchor}-{count}" if count else anchor)
    return anchors


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page):
    text = (ROOT / page).read_text()
    broken = []
    for match in LINK.finditer(without_code(text)):
        target, _, anchor = match[1].partition("#")
        if "://" in match[1] or match[1].startswith("mailto:"):
            continue
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists():
            broken.append(f"{page}:{line_of(text, match.start())}: there is no {match[1]}")
        elif anchor and path.suffix == ".md" and anchor not in headings(path):
            broken.append(f"{page}:{line_of(text, match.start())}: no heading {match[1]}")
    assert not broken, "\n".join(broken)


LABELLED = re.compile(r"\[`((?:[\w.-]+/)*[\w.-]+(?:/|\.py))`\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_to_the_file_that_it_is_called(page):
    text = (ROOT / page).read_text()
    wrong = [
        f"{page}:{line_of(text, match.start())}: `{match[1]}` leads to {match[2]}"
        for match in LABELLED.finditer(text)
        if not f"/{match[2].partition('#')[0].rstrip('/')}".endswith(f"/{match[1].rstrip('/')}")
    ]
    assert not wrong, "\n".join(wrong)


def test_files_that_are_named_are_there():
    there = set(TRACKED)
    broken = []
    for path in TEXTS:
        text = (ROOT / path).read_text()
        for match in NAMED.finditer(text):
            known = match[1] in there or f"runtime/{match[1]}" in there
            if not known and not is_made(match[1]):
                broken.append(f"{path}:{line_of(text, match.start())}: there is no {match[1]}")
    assert not broken, "\n".join(broken)


def is_made(path: str) -> bool:
    """Whether a file is not in the repository because one of our programs writes it."""
    return "/output/" in path


def test_decisions_that_are_named_have_been_recorded():
    recorded = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    named = {
        match[1] or match[2]: path
        for path in TEXTS
        for match in DECISION.finditer((ROOT / path).read_text())
    }
    assert {number: path for number, path in named.items() if number not in recorded} == {}


def test_nothing_refers_to_documents_that_are_not_here():
    broken = []
    for path in TEXTS:
        if ROOT / path == Path(__file__):
            continue
        text = (ROOT / path).read_text()
        found = (f"{path}:{line_of(text, m.start())}: {m[0]}" for m in ELSEWHERE.finditer(text))
        broken += found
    assert not broken, "say what was decided, or which ADR did:\n" + "\n".join(broken)


def test_all_pages_can_be_found_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text() + (ROOT / "docs/adr/README.md").read_text()
    index += (ROOT / "docs/deploy/index.md").read_text()
    pages = [page for page in PAGES if page.startswith("docs/")]
    lost = [page for page in pages if Path(page).name not in index and "index.md" not in page]
    assert not lost
