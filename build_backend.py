"""The build backend of setuptools, extended by wheels with compiled kernels, which are built on request.

    python3 -m pip wheel --no-deps --wheel-dir dist --config-settings kernels=x86-64-v3,x86-64-v4 .

The names of processors are those of `rpq warm-up --cpu`.  Machine code is specific to a minor version of Python, a platform
and a version of numba: the first two are in the tag of such a wheel, the third is pinned in its metadata.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # setuptools provides all functions that are not redefined below

Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the requirements of a build; kernels are compiled by running them, which needs the package's dependencies."""
    requirements = list(build_meta.get_requires_for_build_wheel(_of_setuptools(config_settings)))
    if _processors(config_settings):
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        # Kernels for SPARQL are compiled only if the dependencies of SPARQL are installed.
        sparql = [one for one in project["optional-dependencies"]["sparql"] if not one.startswith(project["name"])]
        requirements += ["wheel>=0.45", "packaging>=24", *project["dependencies"], *sparql]
    return requirements


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the metadata of a wheel that will be built; return the name of their folder."""
    name = build_meta.prepare_metadata_for_build_wheel(metadata_directory, _of_setuptools(config_settings))
    if _processors(config_settings):
        _pin_numba(Path(metadata_directory, name, "METADATA"))
    return name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel; return its file name."""
    processors = _processors(config_settings)
    unknown = {name for name in config_settings or {} if name != "kernels" and not name.startswith("-")}
    if unknown:
        raise ValueError(f"unknown setting {', '.join(sorted(unknown))}: this package has only kernels=NAME,…")
    if not processors:
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    with tempfile.TemporaryDirectory(prefix="rpq-wheel-") as temporary:
        plain = build_meta.build_wheel(temporary, _of_setuptools(config_settings), metadata_directory)
        return _with_kernels(Path(temporary, plain), processors, Path(wheel_directory))


def _processors(config_settings: Settings) -> list[str]:
    value = (config_settings or {}).get("kernels", "")
    return [name for part in ([value] if isinstance(value, str) else value) for name in part.split(",") if name]


def _of_setuptools(config_settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in (config_settings or {}).items() if name != "kernels"}


def _with_kernels(plain: Path, processors: list[str], directory: Path) -> str:
    """Write a wheel with the kernels that `rpq warm-up` would compile after installation; return its file name."""
    from packaging.tags import sys_tags

    unpacked = plain.parent / "unpacked"
    _wheel("unpack", "--dest", unpacked, plain)
    (folder,) = unpacked.iterdir()
    (metadata,) = folder.glob("*.dist-info/METADATA")
    _compile(folder, processors)
    _pin_numba(metadata)
    properties = metadata.with_name("WHEEL")
    properties.write_text(properties.read_text().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
    packed = plain.parent / "packed"
    packed.mkdir()
    _wheel("pack", "--dest-dir", packed, folder)
    (wheel,) = packed.iterdir()
    # Registries accept only platforms with the version of their C library: manylinux_2_35_x86_64.
    tag = next(tag for tag in sys_tags() if not tag.platform.startswith("linux_"))
    parts = ("--python-tag", tag.interpreter, "--abi-tag", tag.abi, "--platform-tag", tag.platform)
    _wheel("tags", "--remove", *parts, wheel)
    (wheel,) = packed.iterdir()
    directory.joinpath(wheel.name).write_bytes(wheel.read_bytes())
    return wheel.name


def _compile(folder: Path, processors: list[str]) -> None:
    """Compile all kernels of the package in a folder, into the cache that an installed package searches."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), settings.get("PYTHONPATH"))))
    settings["PYTHONDONTWRITEBYTECODE"] = "1"

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=folder, env=settings, check=True)

    # Check all names first, because the compilation for each takes minutes.
    check = "import sys; from rpq.engine.compilation import check_processor; [*map(check_processor, sys.argv[1:])]"
    run("-c", check, *processors)
    before = set(folder.rglob("*"))
    for processor in processors:
        run("-m", "rpq.cli", "warm-up", "--cpu", processor)
    for lock in folder.rglob(".turns"):  # by which processes take turns at compiling
        lock.unlink()
    created = {path for path in set(folder.rglob("*")) - before if path.is_file()}
    cache = folder / "__pycache__" / "rpq"
    misplaced = [path for path in created if path.suffix != ".nbc" or not path.is_relative_to(cache)]
    if misplaced or not created:
        raise RuntimeError(f"compilation wrote unexpected files: {misplaced}" if misplaced else "no kernels were compiled")


def _pin_numba(metadata: Path) -> None:
    """Restrict a wheel to the version of numba that its kernels were compiled with."""
    pinned = f"Requires-Dist: numba=={version('numba')}"
    text, found = re.subn(r"^Requires-Dist: numba\b[^\n;]*$", pinned, metadata.read_text(), flags=re.MULTILINE)
    if found != 1:
        raise RuntimeError(f"{metadata} requires numba {found} times; expected once")
    metadata.write_text(text)


def _wheel(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "wheel", *map(str, arguments)], check=True)
