"""A kernel can be read beside the paper: what has a name is called by it, and what every kernel needs stands once."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = [
    path
    for folder in ("rpq/compiled/arrays", "rpq/operators/paths", "rpq/stream")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "njit" in path.read_text()
]
FOREIGN = set(
    "breakpoint perf record annotate inspect_asm inspect_llvm signatures kernel pytest NRT_incref cvtsi2sd rpq bench warm "
    "stats".split()
) | {"NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_ENABLE_PROFILING"}
"""Words in the documents that are not ours."""


@cache
def words_of_sources() -> set[str]:
    files = (path for folder in ("rpq", "automata", "tests") for path in (ROOT / folder).rglob("*.py"))
    return {word for path in files for word in re.findall(r"\w+", path.read_text())}


def places(pattern: str) -> set[str]:
    """The modules of kernels in which a pattern occurs."""
    return {path.name for path in KERNELS if re.search(pattern, path.read_text())}


def test_positions_have_names():
    assert not places(r"\b(?:state|fields|sizes|settings|top|classes)\[\d")
    assert not places(r"\[(?:PHASE|STAGE)\] (?:==|=|!=) \d")


def test_what_every_kernel_needs_stands_once():
    assert places(r"graph\.into\.entries\[") == {"rows.py"}
    assert places(r"\.expiry\[\(link >> 1\) & POINTER\]") == {"rows.py"}
    assert places(r"\* np\.uint64\((?:entries|capacity)\)") == {"hashing.py"}
    assert not places(r"& \((?:entries|capacity) - 1\)|& mask")
    assert places(r"lanes &= ~live\(") == {"rows.py"}


def test_no_kernel_of_the_index_takes_more_than_eight_arguments():
    long = re.compile(r"@njit[^\n]*\ndef (\w+)\(([^)]*)\)")
    of_index = [path.read_text() for path in KERNELS if path.parent.name in ("index", "simple")]
    found = [name for text in of_index for name, arguments in long.findall(text) if arguments.count(",") > 7]
    assert not found


@pytest.mark.parametrize("name", ["glossary.md", "kernels.md"])
def test_the_documents_name_what_there_is(name):
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / name).read_text(), flags=re.DOTALL)
    missing = []
    for quoted in re.findall(r"`([^`\n]+)`", text):
        if "/" in quoted and " " not in quoted and quoted.endswith((".py", ".md", "/")):
            if not (ROOT / quoted).exists():
                missing.append(quoted)
            continue
        if (ROOT / quoted).is_file():
            continue
        words = re.findall(r"(?<![\w.])(?:\w+\.)*([A-Za-z_]{4,})(?![\w…])", quoted)
        missing += [word for word in words if word not in FOREIGN and word not in words_of_sources()]
    assert not missing
