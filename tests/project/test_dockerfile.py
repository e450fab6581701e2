"""The Dockerfile, step by step without Docker: its instructions are carried out in a folder that stands for the image."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.services.environments import ALL_LOADED, ROOT, copied_checkout, dependencies

# The base image has a Python that pip installs into. Here it is a virtual environment.
PYTHON = "/opt/python"
PATH = f"{PYTHON}/bin:/usr/local/bin:/usr/bin:/bin"
EDGES = "source\ttarget\tlabel\ttimestamp\nann\tbob\ta2q\t1\nbob\tcho\tc2a\t2\n"
COMMAND = ["run", "a2q/c2a*", "--input", "-", "--time-unit", "s", "--window", "30d", "--slide", "1d", "--output", "-"]


@dataclass
class Image:
    """A folder as the root of a file system, and the settings of the instructions for commands that run in it."""

    root: Path
    user: str = "0:0"
    folder: str = "/"
    arguments: dict[str, str] = field(default_factory=dict)
    entry: list[str] = field(default_factory=list)
    warm_up: str = ""

    def run(self, *command: str, user: str | None = None, **options) -> subprocess.CompletedProcess[str]:
        """Run a command as `docker run` would. Of this process's environment it has only the settings of pip."""
        reuid, _, regid = (user or self.user).partition(":")
        inside = ["setpriv", f"--reuid={reuid}", f"--regid={regid or reuid}", "--clear-groups"]
        home = "/root" if reuid == "0" else "/"
        registry = [f"{name}={value}" for name, value in os.environ.items() if re.match(r"PIP_|SSL_|REQUESTS_", name)]
        arguments = [f"{name}={value}" for name, value in self.arguments.items()]
        inside += ["env", "-i", f"PATH={PATH}", f"HOME={home}", *(registry if reuid == "0" else []), *arguments]
        inside += ["sh", "-c", f'cd {shlex.quote(self.folder)} && exec "$@"', "sh", *command]
        enter = shlex.join(["exec", "chroot", str(self.root), *inside])
        script = "\n".join(["set -e", *map(self._mount, _shared_paths()), enter])
        separately = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        return subprocess.run(separately, capture_output=True, text=True, check=False, **options)

    def _mount(self, path: Path) -> str:
        """Return a line of shell that mounts a file or a folder of this machine in the image, to be read."""
        there = self.root / path.relative_to("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            there.mkdir(exist_ok=True)
        else:
            there.touch()
        at = shlex.quote(str(there))
        return f"mount --bind {shlex.quote(str(path))} {at} && mount -o remount,bind,ro {at}"


def _shared_paths() -> list[Path]:
    """Return the programs and the Python of this machine, the packages that ours needs, and the settings of pip."""
    paths = {Path("/usr"), Path("/etc"), Path("/dev"), Path(sys.base_prefix).resolve(), Path("~/.config/pip").expanduser()}
    paths |= {Path(folder) for folder in ("/bin", "/lib", "/lib64") if not os.path.islink(folder)}
    paths |= {Path(dependency.locate_file("")).resolve() for dependency in dependencies()}
    for name, value in os.environ.items():
        if re.match(r"PIP_|SSL_|REQUESTS_", name):
            paths |= {Path(word) for word in value.split() if word.startswith("/")}
    existing = sorted(path for path in paths if path.exists())
    return [path for path in existing if not any(path != other and path.is_relative_to(other) for other in existing)]


def new_image(root: Path) -> Image:
    """Return the base image: a Python with pip, and the folders that any image has."""
    for name in ("tmp", "root", "proc"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}"))
    image = Image(root)
    done = image.run(str(Path(sys.base_prefix).resolve() / "bin" / "python3"), "-m", "venv", PYTHON)
    assert done.returncode == 0, done.stderr
    (site,) = (root / PYTHON[1:]).glob("lib/python*/site-packages")
    (root / "packages").mkdir()
    for dependency in dependencies():
        for entry in {file.parts[0] for file in dependency.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (root / "packages" / entry).symlink_to(Path(dependency.locate_file(entry)).resolve())
    (site / "packages.pth").write_text("/packages\n")
    return image


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile: (name, the rest of the line)."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def built_image(folder: Path) -> Image:
    """Return the last stage of the Dockerfile."""
    stages: dict[str, Image] = {}
    image = Image(folder)
    for name, rest in instructions((ROOT / "Dockerfile").read_text()):
        if name == "FROM":
            base, _, stage = rest.partition(" AS ")
            assert re.fullmatch(r"python:3\.\d+-slim", base)
            stages[stage] = image = new_image(folder / f"stage{len(stages)}")
        elif name == "ARG":
            key, _, value = rest.partition("=")
            image.arguments[key] = value.strip('"')
        elif name == "COPY":
            *options, source, target = rest.split()
            there = image.root / target[1:]
            if options:
                shutil.copytree(stages[options[0].removeprefix("--from=")].root / source[1:], there)
            else:
                assert source == "."
                copied_checkout(there)
        elif name == "RUN":
            if rest.startswith("rpq warm-up"):
                _copy_kernels(image)
                image.warm_up = rest
                # Loading all that is lent takes four processes, and the test that looks for all does it again.
                rest += " --slides 1"
            done = image.run("sh", "-c", rest)
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
        elif name == "USER":
            image.user = rest
        elif name == "WORKDIR":
            image.folder = rest
            (image.root / rest[1:]).mkdir(exist_ok=True)
        else:
            assert name == "ENTRYPOINT", f"{name} is not known to this test"
            image.entry = re.findall(r'"([^"]*)"', rest)
    return image


def _copy_kernels(image: Image) -> None:
    """Copy the kernels that this checkout has compiled from the same sources; the image compiles those that are missing."""
    (site,) = (image.root / PYTHON[1:]).glob("lib/python*/site-packages")
    for path in (ROOT / "__pycache__" / "rpq").rglob("*.nbc"):
        there = site / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)


@pytest.fixture(scope="module")
def image():
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("only root can run something in another root folder")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount anything")
    folder = Path(tempfile.mkdtemp(prefix="rpq-image-"))
    folder.chmod(0o755)
    yield built_image(folder)
    shutil.rmtree(folder)


def test_the_instructions_are_those_that_are_carried_out_here():
    names = [name for name, _ in instructions((ROOT / "Dockerfile").read_text())]
    needed = {"FROM", "RUN", "USER", "ENTRYPOINT"}
    assert needed <= {*names} <= needed | {"COPY", "ARG", "WORKDIR"}


@pytest.mark.long
def test_a_query_over_a_pipe_is_answered_at_once_as_a_user_who_can_write_nothing(image):
    assert not image.user.startswith("0")
    for has_temporary_files in (True, False):
        (image.root / "tmp").chmod(0o1777 if has_temporary_files else 0o755)
        done = image.run(*image.entry, *COMMAND, input=EDGES)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "source,target,timestamp,op\nann,bob,1,+\nann,cho,2,+\n"
        assert "compiling kernels" not in done.stderr
    demo = image.run(*image.entry, "demo", "--edges", "500")
    assert demo.returncode == 0 and "a2q" in demo.stdout and "compiling kernels" not in demo.stderr


@pytest.mark.long
def test_all_kernels_are_in_the_image_and_the_user_cannot_change_them(image):
    (image.root / "tmp").chmod(0o755)
    done = image.run("python", "-c", ALL_LOADED)
    if done.stdout != "None\n":  # this checkout has not compiled all of them: now the image does
        compiled = image.run("sh", "-c", image.warm_up, user="0:0")
        assert compiled.returncode == 0, compiled.stderr
        done = image.run("python", "-c", ALL_LOADED)
    assert done.stdout == "None\n", done.stdout + done.stderr
    (package,) = (image.root / PYTHON[1:]).glob("lib/python*/site-packages/__pycache__/rpq")
    assert len(list(package.rglob("*.nbc"))) > 500
    assert image.run("touch", f"/{package.relative_to(image.root)}/mine").returncode != 0
