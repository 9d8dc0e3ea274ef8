"""What the site has beside the pages of docs/: see `mkdocs.yml`.

README, CONTRIBUTING and CHANGELOG become pages, the API reference is made from the list of public
names, decisions are put into the navigation, and links that leave docs/ lead to the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # tests import this module where mkdocs is not installed
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ROOT_PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
UNIT = re.compile(r"(?<=\d) (?=(?:ms|us|µs|s|[KMG]i?B|million)\b)")
"""What a narrow cell of a table would break between a number and its unit."""
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)

PARAMETERS = """\
All of them take the parameters of [`SparkTrainer`](../spark_trainer.md#parameters); those that
bring a loss or a network take [more](../spark_estimators.md#parameters). Each parameter has a
setter and a getter (`setEpochs`, `getEpochs`). The other estimators have the methods of
`SparkTrainer`, too."""
MODELS = """\
What `fit` returns; see [the trained model](../spark_model.md). The other models have the methods of
`SparkTrainerModel`, too."""
EXPORT = """\
`sparkflow.export` imports no pyspark; see [the trained model](../spark_model.md#without-spark)."""
REFERENCE = {
    "estimators": (
        "Spark estimators",
        PARAMETERS,
        r"sparkflow\.spark\.(SparkTrainer|Spark\w+(Classifier|Regressor))$",
    ),
    "models": ("Models", MODELS, r"sparkflow\.spark\.\w+Model$"),
    "errors": (
        "Errors",
        "Errors of graphs and sessions are those of `tf.errors`, under TensorFlow's names.",
        r"sparkflow\.spark\.\w+Error$",
    ),
    "training": ("Training, streams, clusters", "", r"sparkflow\.spark\."),
    "export": ("Use without Spark", EXPORT, r"sparkflow\.export\."),
    "testing": (
        "Testing",
        "For tests of your own programs; see [clusters](../cluster.md#testing).",
        r"sparkflow_runtime\.testing\.(?!leaks\.T$)",
    ),
}
"""Pages of the reference: title, introduction, names. A name is on the first page that takes it."""
BASES = ("sparkflow.spark.SparkTrainer", "sparkflow.spark.SparkTrainerModel")
"""What the other classes of their page share is said of these, which come first."""
EXTENSION = {"DEFAULTS", "config", "decided", "objective", "prediction_columns", "size"}
EXTENSION |= {"standardizes", "stepping"}
"""Members that estimators share among each other: a user has no use for them."""


def repository() -> str:
    """The address of the repository, which pyproject.toml has."""
    import tomllib  # tests import this module with Python 3.10, too

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address: str = project["urls"]["Homepage"]
    return address


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Says where the repository is, and puts the recorded decisions into the navigation."""
    config.repo_url = repository()
    config.repo_name = "/".join(config.repo_url.rstrip("/").split("/")[-2:])
    config.edit_uri = "blob/main/docs/"
    decisions = _section(config.nav, "Decisions")
    for path in sorted((DOCS / "adr").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
        decisions.append({title: f"adr/{path.name}"})
    return config


def _section(entries: Any, title: str) -> list[Any]:
    for entry in entries:
        if isinstance(entry, dict):
            for name, below in entry.items():
                if name == title:
                    return below
                if isinstance(below, list) and (found := _section(below, title)) is not None:
                    return found
    return None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/."""
    from mkdocs.structure.files import File

    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for page, text in reference().items():
        files.append(File.generated(config, f"reference/{page}.md", content=text))
    return files


def reference() -> dict[str, str]:
    """The pages of the API reference, by file name: a directive of mkdocstrings per public name."""
    listed = (ROOT / "tests" / "contracts" / "public_api.txt").read_text(encoding="utf-8")
    members: dict[str, list[str]] = {}  # in the order of the list
    for line in listed.splitlines():
        parts = line.partition("(")[0].split(".")
        depth = 4 if line.startswith("sparkflow_runtime.") else 3
        members.setdefault(".".join(parts[:depth]), []).extend(parts[depth:])
    pages = {page: f"# {title}\n\n{words}\n" for page, (title, words, _) in REFERENCE.items()}
    for name in sorted(members, key=lambda name: name not in BASES):
        for page, (_, _, wanted) in REFERENCE.items():
            if re.match(wanted, name):
                shown = _shown(name, members, page)
                pages[page] += f"\n::: {name}\n    options:\n      members: {shown}\n"
                break
    return pages


def _shown(name: str, members: dict[str, list[str]], page: str) -> list[str]:
    """The members of a class without setters, getters, parameters and what its base has."""
    params = {each[3].lower() + each[4:] for each in members[name] if re.match("get[A-Z]", each)}
    hidden = EXTENSION | params
    for base in BASES:
        if base != name and re.match(REFERENCE[page][2], base):
            hidden |= set(members[base])
    accessor = re.compile("(get|set)[A-Z](?!arams$)")
    return [each for each in members[name] if each not in hidden and not accessor.match(each)]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that leave docs/ into links to pages of the site, or to the repository.

    Numbers stay on the line of their unit.
    """
    source = page.file.src_uri
    home = next((name for name, made in ROOT_PAGES.items() if made == source), None)
    folder = ROOT if home else (DOCS / source).parent

    def led(match: re.Match[str]) -> str:
        return match[1] + _target(match[2], folder, source, str(config.repo_url)) + match[3]

    parts = CODE.split(markdown)  # every other one is code
    parts[::2] = [UNIT.sub("\N{NO-BREAK SPACE}", LINK.sub(led, text)) for text in parts[::2]]
    # A label that is code splits its link in two: [`name`](target).
    return re.sub(r"(\]\()([^)\s]+)(\))", led, "".join(parts)) if len(parts) > 1 else parts[0]


def _target(link: str, folder: Path, source: str, repository: str) -> str:
    path, hash_sign, anchor = link.partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return link
    found = (folder / path).resolve()
    if not found.exists():
        return link  # mkdocs will say so
    up = "../" * source.count("/")
    if str(found.relative_to(ROOT)) in ROOT_PAGES:
        return f"{up}{ROOT_PAGES[str(found.relative_to(ROOT))]}{hash_sign}{anchor}"
    if found.is_relative_to(DOCS):
        if found.is_dir():
            return f"{repository}/tree/main/{found.relative_to(ROOT)}"
        return f"{up}{found.relative_to(DOCS)}{hash_sign}{anchor}"
    kind = "tree" if found.is_dir() else "blob"
    return f"{repository}/{kind}/main/{found.relative_to(ROOT)}{hash_sign}{anchor}"
