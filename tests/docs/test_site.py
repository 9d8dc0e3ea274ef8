"""The site of docs/: every page is in its navigation, and reads there as on GitHub."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
SHOWN = re.findall(r"(?:: |- )(\S+\.md)\b", NAVIGATION)
ITEM = re.compile(r" *(?:[-*]|\d+\.) ")


def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = hooks()


def test_every_page_is_in_the_navigation_once():
    """If yours is missing: give it a title and a place in mkdocs.yml."""
    decisions = {page for page in PAGES if re.match(r"adr/\d", page)}  # added by site_hooks.py
    assert sorted(set(PAGES) - decisions - set(SHOWN)) == []
    assert sorted(page for page in set(SHOWN) if SHOWN.count(page) > 1) == []


def test_the_navigation_leads_to_pages_that_are_there():
    made = set(HOOKS.ROOT_PAGES.values()) | {f"reference/{page}.md" for page in HOOKS.REFERENCE}
    assert sorted(set(SHOWN) - set(PAGES) - made) == []
    assert made <= set(SHOWN)


def test_the_repository_s_address_is_said_in_pyproject_alone():
    """If it changes, a search and replace in that file is enough."""
    pytest.importorskip("tomllib", reason="Python 3.11 has it")
    address = HOOKS.repository()
    text = (ROOT / "pyproject.toml").read_text()
    urls = text.partition("[project.urls]")[2].partition("\n[")[0].split('"')[1::2]
    assert urls[0] == address
    assert all(url.startswith(address) for url in urls)
    assert f"]({address}/blob/main/" in text  # for the README's links where it is shown elsewhere
    tracked = subprocess.run(
        ["git", "grep", "-lF", address],  # noqa: S607  (on PATH)
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if tracked.returncode > 1:
        pytest.skip("not in a checkout of git")
    assert tracked.stdout.split() == ["pyproject.toml"]


def test_every_public_name_is_in_the_reference():
    pages = HOOKS.reference()
    names = re.findall(r"^::: (\S+)$", "".join(pages.values()), re.MULTILINE)
    assert len(names) == len(set(names))
    lines = (ROOT / "tests/contracts/public_api.txt").read_text().splitlines()
    lost = [
        line
        for line in lines
        if not any(re.match(re.escape(name) + r"(?:[.(]|$)", line) for name in names)
    ]
    assert lost == ["sparkflow_runtime.testing.leaks.T"]  # a type variable
    assert "evaluate" in pages["models"]
    assert "getEpochs'" not in pages["estimators"]


@pytest.mark.parametrize("page", [*PAGES, *HOOKS.ROOT_PAGES])
def test_lists_read_the_same_on_the_site(page):
    """Python's Markdown requires a blank line before a list, and four blanks below an item."""
    path = ROOT / page if page in HOOKS.ROOT_PAGES else DOCS / page
    wrong = []
    code, before = False, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            begins = ITEM.match(line) and before.strip() and not before.startswith(" ")
            if begins and not ITEM.match(before):
                wrong.append(f"{page}:{number}: no blank line before this list")
            if not before and re.match(r" {1,3}\S", line):
                wrong.append(f"{page}:{number}: this is not part of the item above")
        before = line
    assert wrong == []


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("index.md", "../README.md", "readme.md"),
        ("adr/README.md", "../../CONTRIBUTING.md#words", "../contributing.md#words"),
        ("index.md", "../examples", "R/tree/main/examples"),
        (
            "index.md",
            "../sparkflow/spark/trainer.py#L9",
            "R/blob/main/sparkflow/spark/trainer.py#L9",
        ),
        ("deploy/yarn.md", "../notebooks.md#jupyter", "../notebooks.md#jupyter"),
        ("readme.md", "docs/gpu.md", "gpu.md"),
        ("index.md", "https://spark.apache.org/", "https://spark.apache.org/"),
        ("index.md", "#parts", "#parts"),
        ("index.md", "gone.md", "gone.md"),
    ],
)
def test_links_that_leave_the_folder_lead_to_the_repository(page, link, wanted):
    home = ROOT if page in HOOKS.ROOT_PAGES.values() else (DOCS / page).parent
    assert HOOKS._target(link, home, page, "R") == wanted


def test_numbers_stay_on_the_line_of_their_unit():
    assert HOOKS.UNIT.sub("_", "| 1.2 s | 3 million of 28 columns, 5 MB") == (
        "| 1.2_s | 3_million of 28 columns, 5_MB"
    )
    assert HOOKS.UNIT.sub("_", "2 servers, 3 steps") == "2 servers, 3 steps"


def test_what_builds_the_site_is_pinned():
    lines = (DOCS / "requirements.txt").read_text().splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert packages
    assert [line for line in packages if not re.fullmatch(r"[\w-]+==[\d.]+", line)] == []
