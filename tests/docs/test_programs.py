"""Every page with Python blocks has a test that runs them; commands state what they require."""

import re
from pathlib import Path

from support.pages import BLOCK

ROOT = Path(__file__).parents[2]


def test_the_blocks_of_all_pages_are_run() -> None:
    pages = {
        str(page.relative_to(ROOT))
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        if BLOCK.search(page.read_text(encoding="utf-8"))
    }
    assert len(pages) > 30
    tests = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    running = "\n".join(text for text in tests if re.search(r"\bexec\(|support\.pages", text))
    named = {page for page in pages if re.search(rf"[\"/]{re.escape(Path(page).name)}\"", running)}
    assert pages - named == set(), "add them to tests/sparkflow/spark/test_page_examples.py"


SHELL = re.compile(r"^```(?:bash|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_pages_that_run_an_example_install_what_it_imports() -> None:
    """`examples/` draw with packages, and use their data, that are not in the extra `spark`."""
    running = {}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if any(re.search(r"\bexamples/\w+\.(?:py|ipynb)", each) for each in SHELL.findall(text)):
            running[page.name] = "[examples]" in text or "EXTRAS=examples" in text
    assert {"local.md", "standalone.md", "kubernetes.md"} <= set(running)
    assert [page for page, installs in running.items() if not installs] == []
