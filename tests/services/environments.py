"""Fresh environments in which what would be released is installed: a wheel, a source distribution, dependencies by links."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist")
ALL_LOADED = """
from rpq.compiled.kernel_cache import why_compiled
from rpq.engine.warmup import VARIANTS, warm_up_variant
for variant in VARIANTS:
    warm_up_variant(variant)
print(why_compiled())
"""
"""A script that needs every kernel there is, and prints why some were compiled, or None."""
IN_CI = os.environ.get("CI") == "true"


def pip(*arguments: object, python: Path | str | None = sys.executable, **options) -> str:
    """Run pip, for a Python if one is given; where no registry can be reached the test is skipped, but fails in CI."""
    chosen = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *chosen, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode and not IN_CI and ("Could not find a version" in done.stderr or "Connection" in done.stderr):
        pytest.skip("no package registry can be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied_checkout(folder: Path) -> Path:
    """The checkout without what was made in it; links stay links."""
    return shutil.copytree(ROOT, folder, symlinks=True, ignore=LEFT_OUT)


def built(source: Path, folder: Path) -> Path:
    """The wheel of a source folder."""
    pip("wheel", "--no-deps", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(folder: Path, *installed: object, extra: str = "") -> Path:
    """The Python of a new virtual environment with our dependencies (those of an extra too), as links, and what is to be
    installed.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    links = folder / "dependencies"
    links.mkdir()
    for dependency in dependencies(extra):
        for entry in {file.parts[0] for file in dependency.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (links / entry).symlink_to(Path(dependency.locate_file(entry)))
    (site / "dependencies.pth").write_text(f"{links}\n")
    if installed:
        pip("install", "--quiet", *installed, python=python)
    return python


def with_kernels(python: Path) -> Path:
    """The same, with the kernels that the checkout has compiled."""
    copied_kernels(site_packages(python))
    return python


def copied_kernels(folder: Path) -> None:
    """Put the kernels of the checkout beside a package `rpq`: they depend on what its files say, not on where they are."""
    if (compiled := ROOT / "__pycache__" / "rpq").is_dir():
        shutil.copytree(compiled, folder / "__pycache__" / "rpq", dirs_exist_ok=True)


def site_packages(python: Path) -> Path:
    """Return the folder of the packages of an environment."""
    return next(python.parents[1].glob("lib/python*/site-packages"))


def unprivileged() -> list[str]:
    """Return the prefix that runs a command as a user who owns nothing; the test is skipped where root is needed for it."""
    if os.name != "posix" or os.getuid() != 0:
        pytest.skip("only root can run something as somebody else")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    # Where Python itself lies in root's home, reading is allowed beyond what nobody may; writing never is.
    for more in ([], ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]):
        tried = subprocess.run([*nobody, *more, sys.executable, "-c", "import numba"], capture_output=True, check=False)
        if tried.returncode == 0:
            return [*nobody, *more]
    pytest.skip("nobody may read this Python")


@cache
def dependencies(extra: str = "") -> list[Distribution]:
    """Return the direct and indirect dependencies of the core install, or of one with an extra, as installed here."""
    found: dict[str, Distribution] = {}
    waiting = [*_required("streaming-rpq", extra)]
    while waiting:
        needed = waiting.pop()
        if needed.name == "streaming-rpq":  # an extra that consists of others; the package itself is no dependency
            waiting += [one for part in needed.extras for one in _required("streaming-rpq", part)]
            continue
        if needed.name in found:
            continue
        try:
            found[needed.name] = distribution(needed.name)
        except PackageNotFoundError:
            pytest.skip(f"{needed.name} is not installed here")
        waiting += _required(needed.name, extra)
    return list(found.values())


def _required(name: str, extra: str) -> Iterator[Requirement]:
    """Return the packages that a package, or an extra of it, requires on this machine."""
    for needed in map(Requirement, distribution(name).requires or ()):
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield needed


def run(python: Path, *arguments: object, before: list[str] | tuple[()] = (), **options) -> subprocess.CompletedProcess[str]:
    """Run a Python, without the settings of whoever runs the tests; `before` is the start of the command, None unsets."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "RPQ"))}
    variables |= options.pop("env", {})
    variables = {name: value for name, value in variables.items() if value is not None}
    command = [*before, str(python), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
