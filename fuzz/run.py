"""Fuzzes the parsers of outside bytes, guided by the branches that inputs reach.

    python fuzz/run.py --minutes 10                     all targets, so many minutes in all
    python fuzz/run.py --minutes 2 --target png wav     some of them
    python fuzz/run.py --minutes 1 --target plans       graphs compiled and interpreted, by seeds
    python fuzz/run.py --list

Needs `pip install -e '.[fuzz]'` (atheris). What holds of each input stands in `oracle.py`. Each
target runs in a process of its own with 3 GiB of memory; the first finding ends it, is written to
`fuzz/findings/TARGET/` and shown. Inputs that reach something new are kept in `build/fuzz/TARGET/`
between runs; `--keep` puts the smallest of them into `fuzz/corpus/TARGET/`, which
`tests/faults/test_fuzz_corpus.py` replays. A mended finding is put there by hand, as `found-...`.

The exit status is 1 where there was a finding. `build/fuzz.md` has the numbers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parent
sys.path[:0] = [str(FOLDER), str(ROOT / "tests")]

MEMORY_MIB: Final = 3072
SLOWER: Final = 8.0
"""How many times slower an input may be under instrumentation."""
MOST_BYTES: Final = 16_384
KEPT: Final = 12
MOST_BYTES_KEPT: Final = 4096
DIFFERENTIAL: Final = ("plans", "loops", "turns")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of fuzzing one target: inputs, branches that were reached, a finding or ""."""

    target: str
    inputs: int
    branches: int
    seconds: float
    finding: str


def main() -> int:
    """Fuzzes the targets one after another."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together")
    parser.add_argument("--target", nargs="+", default=[], help="their names; all without it")
    parser.add_argument("--keep", action="store_true", help="put what is new into the corpus")
    parser.add_argument("--list", action="store_true", help="name the targets")
    options = parser.parse_args()
    from oracle import all_targets

    families = {target.name: (family, target) for family, target in all_targets()}
    names = options.target or [*families, *DIFFERENTIAL]
    unknown = set(names) - {*families, *DIFFERENTIAL}
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}; see --list")
    if options.list:
        print("\n".join(names))
        return 0
    seconds = max(5, round(60 * options.minutes / len(names)))
    outcomes = []
    for name in names:
        if name in DIFFERENTIAL:
            outcome = differ(name, seconds)
        else:
            family, target = families[name]
            folder = ROOT / "build/fuzz" / name
            folder.mkdir(parents=True, exist_ok=True)
            for number, seed in enumerate(target.seeds()):
                (folder / f"seed-{number}").write_bytes(seed)
            outcome = fuzz(family, name, folder, seconds)
            if options.keep:
                keep(name, folder)
        outcomes.append(outcome)
        print(
            f"{name}: {outcome.inputs:,} inputs, {outcome.branches} branches in "
            f"{outcome.seconds:.0f} s{': ' if outcome.finding else ''}{outcome.finding}",
            flush=True,
        )
    report(outcomes)
    return 1 if any(each.finding for each in outcomes) else 0


def fuzz(family: str, name: str, folder: Path, seconds: int) -> Outcome:
    """Runs atheris on a target for so long."""
    findings = FOLDER / "findings" / name
    findings.mkdir(parents=True, exist_ok=True)
    corpus = FOLDER / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    done = _atheris(
        family,
        name,
        str(folder),
        str(corpus),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={findings}/",
        timeout_s=seconds + 300,
    )
    said = done.stdout
    inputs = re.findall(r"^#(\d+)", said, re.MULTILINE)
    total = re.search(r"Done (\d+) runs", said)
    branches = re.findall(r"ft: (\d+)", said)
    if not any(findings.iterdir()):
        findings.rmdir()
    return Outcome(
        name,
        int(total[1]) if total else int(inputs[-1]) if inputs else 0,
        int(branches[-1]) if branches else 0,
        time.monotonic() - started,
        _finding(said) if done.returncode else "",
    )


def keep(name: str, folder: Path) -> None:
    """Puts the smallest inputs that have reached something new into the corpus."""
    corpus = FOLDER / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    found = sorted(folder.iterdir(), key=lambda each: (each.stat().st_size, each.name))
    new = [each for each in found if not each.name.startswith("seed-")]
    for path in new[:KEPT] or found[:1]:
        if path.stat().st_size <= MOST_BYTES_KEPT:
            (corpus / path.name[:12]).write_bytes(path.read_bytes())


def _atheris(
    family: str, name: str, *arguments: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "one.py"), family, name, str(SLOWER), *arguments]
    command += [f"-max_len={MOST_BYTES}", f"-rss_limit_mb={MEMORY_MIB}", "-timeout=60"]
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  (files in memory)
    with tempfile.TemporaryDirectory(prefix="sparkflow-fuzz-", dir=memory) as scratch:
        return subprocess.run(
            command,
            cwd=ROOT,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**os.environ, "TMPDIR": scratch, "OMP_NUM_THREADS": "1"},
        )


def differ(name: str, seconds: int) -> Outcome:
    """Runs what is drawn from one seed after another in several ways."""
    from differential import WAYS

    started = time.monotonic()
    seed = int(time.time())
    inputs, finding = 0, ""
    while time.monotonic() - started < seconds and not finding:
        try:
            WAYS[name](seed)
        except Exception as error:
            finding = f"seed {seed}: {type(error).__name__}: {str(error).strip()[:500]}"
        seed += 1
        inputs += 1
    return Outcome(name, inputs, 0, time.monotonic() - started, finding)


def _finding(said: str) -> str:
    """The end of Python's traceback, or of what libFuzzer said."""
    _, found, rest = said.partition("=== Uncaught Python exception: ===")
    lines = (rest if found else said).strip().splitlines()
    stop = next((n for n, line in enumerate(lines) if line.startswith("==")), len(lines))
    return "\n    ".join(lines[:stop][-12:] if found else lines[-25:])


def report(outcomes: list[Outcome]) -> None:
    """Writes the numbers as Markdown."""
    lines = [
        f"| {each.target} | {each.inputs:,} | {each.branches} | {each.seconds:.0f} | "
        f"{'**found**' if each.finding else ''} |"
        for each in outcomes
    ]
    total = sum(each.inputs for each in outcomes)
    head = "| target | inputs | branches | seconds | |\n|---|---|---|---|---|\n"
    path = ROOT / "build/fuzz.md"
    path.write_text(f"{head}" + "\n".join(lines) + f"\n| all | {total:,} | | | |\n", "utf-8")
    print(f"{total:,} inputs; the report is {path}")


if __name__ == "__main__":
    sys.exit(main())
