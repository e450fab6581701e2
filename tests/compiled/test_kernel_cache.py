"""The cache of compiled kernels: where it lies, who finds them, and the notice when they must be compiled."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from rpq.compiled.kernel_sources import digest
from tests.services.environments import ROOT, environment, run, site_packages, unprivileged

FACTOR = "FACTOR = 2\n"
# A kernel that calls another one in another file: small, so that compiling takes a second, and like those that are there.
INNER = """
from rpq.compiled.kernel_cache import njit
from rpq.small_factor import FACTOR

@njit(cache=True)
def scaled(x):
    return FACTOR * x
"""
OUTER = """
from rpq.compiled.kernel_cache import njit
from rpq.small_inner import scaled

@njit(cache=True)
def total(x, y):
    return scaled(x) + y
"""
# A kernel whose code refers to functions of numba's runtime.
RUNTIME = """
from rpq.compiled.kernel_cache import njit

@njit(cache=True)
def shifted(values, number):
    if number < 0:
        raise ValueError("a negative number")
    return values + number
"""
SMALL = {"factor": FACTOR, "inner": INNER, "outer": OUTER, "runtime": RUNTIME}

ASK = """
import json, sys
from rpq.compiled.kernel_cache import why_compiled
from rpq.small_outer import total
arguments = json.loads(sys.argv[1])
print(json.dumps([total(*arguments), why_compiled()]))
"""


@pytest.fixture(scope="module")
def pristine(wheel) -> Path:
    """An installation with a small kernel that anybody may read, and in which nothing was compiled."""
    folder = Path(tempfile.mkdtemp(prefix="rpq-test-"))
    folder.chmod(0o755)
    python = environment(folder / "venv", wheel)
    package = site_packages(python) / "rpq"
    for name, text in SMALL.items():
        (package / f"small_{name}.py").write_text(text)
    yield python
    shutil.rmtree(folder)


@pytest.fixture
def python(pristine, monkeypatch) -> Path:
    """The same, emptied of kernels."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    for folder in (site_packages(pristine) / "__pycache__", pristine.parents[2] / "home", pristine.parents[2] / "cache"):
        shutil.rmtree(folder, ignore_errors=True)
    for name, text in SMALL.items():
        (site_packages(pristine) / "rpq" / f"small_{name}.py").write_text(text)
    return pristine


def ask(python: Path, arguments: tuple = (3, 4), first: str = "", **options) -> tuple[float, str | None]:
    """Return the kernel's result, and the reason for compiling it; `first` is run before."""
    return tuple(json.loads(run(python, "-c", first + ASK, json.dumps(arguments), cwd="/", **options).stdout))


@pytest.fixture
def nobody(python):
    """Asks as a user who may write neither the installation nor a home, but temporary files in a folder of his own."""
    before = unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="rpq-test-"))
    folder.chmod(0o777)

    def asking(arguments: tuple = (3, 4), first: str = "", **variables):
        env = {"HOME": None, "XDG_CACHE_HOME": None, "TMPDIR": str(folder), **variables}
        return ask(python, arguments, first, env=env, before=before)

    asking.folder = folder
    yield asking
    shutil.rmtree(folder)


@pytest.mark.ci
def test_what_is_compiled_once_is_kept_beside_the_package(python):
    beside = site_packages(python) / "__pycache__" / "rpq"
    assert ask(python) == (10, f"there is no cache yet; kept in {beside}")
    assert len(list(beside.rglob("*.nbc"))) == 2
    assert ask(python) == (10, None)


@pytest.mark.ci
def test_a_kernel_that_kernels_call_is_kept_for_them_and_for_python_apart(python):
    def names() -> list[str]:
        return sorted(path.name.split(".py")[0] for path in beside.rglob("*.nbc"))

    def forget(pattern: str) -> None:
        for path in beside.rglob(f"{pattern}*.nbc"):
            path.unlink()

    beside = site_packages(python) / "__pycache__" / "rpq"
    ask(python)
    assert names() == ["small_inner.scaled.callee", "small_outer.total"]
    # The callee alone is found: nothing but its caller is compiled, which contains it as before.
    kept = {path: path.stat().st_mtime_ns for path in beside.rglob("*callee*.nbc")}
    forget("small_outer")
    assert ask(python)[0] == 10 and {path: path.stat().st_mtime_ns for path in kept} == kept
    # What Python called first serves kernels too.
    forget("small")
    assert run(python, "-c", "from rpq.small_inner import scaled; print(scaled(3))", cwd="/").stdout == "6\n"
    assert ask(python)[0] == 10 and names() == ["small_inner.scaled", "small_outer.total"]
    assert ask(python) == (10, None)


@pytest.mark.long
def test_another_variant_is_compiled_and_added(python):
    ask(python)
    value, why = ask(python, (1.5, 4))
    assert value == 7 and "no kernels for such a query yet" in why
    assert ask(python, (1.5, 4)) == (7, None) and ask(python) == (10, None)


@pytest.mark.ci
def test_what_root_compiled_is_found_by_a_user_who_cannot_write_there(python, nobody):
    ask(python)
    assert nobody() == (10, None)
    # What is missing is kept elsewhere, and both are read.
    assert nobody((1.5, 4))[1] is not None
    assert nobody((1.5, 4)) == (7, None)
    assert nobody() == (10, None)


def test_a_temporary_directory_that_others_can_write_is_not_trusted(nobody):
    (nobody.folder / "streaming-rpq-65534").mkdir(mode=0o777)
    value, why = nobody()
    assert value == 10 and "not kept, since none of these can be written" in why
    assert not list(nobody.folder.rglob("*.nbc"))


@pytest.mark.long
def test_with_a_home_kernels_are_kept_in_its_cache(nobody):
    home = nobody.folder / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    assert f"kept in {home / '.cache' / 'streaming-rpq'}" in nobody(HOME=str(home))[1]
    assert nobody(HOME=str(home)) == (10, None)
    other = nobody.folder / "other"
    other.mkdir()
    os.chown(other, 65534, 65534)
    assert f"kept in {other / 'streaming-rpq'}" in nobody(HOME=str(home), XDG_CACHE_HOME=str(other))[1]


@pytest.mark.long
def test_a_cache_for_another_processor_is_named(python):
    ask(python)
    name, why = ask(python, env={"NUMBA_CPU_NAME": "nocona", "NUMBA_CPU_FEATURES": ""})
    assert name == 10 and " was made for processor " in why and ", this is nocona; kept in " in why
    assert ask(python) == (10, None)


@pytest.mark.ci
def test_a_change_in_a_file_that_a_kernel_reads_from_is_noticed(python):
    assert ask(python)[0] == 10
    # Of another length: Python itself looks at seconds and length.
    (site_packages(python) / "rpq" / "small_factor.py").write_text("FACTOR = 10 // 2\n")
    value, why = ask(python)
    assert value == 19 and "was made from another version of the kernels; kept in " in why
    assert ask(python) == (19, None)


@pytest.mark.ci
def test_a_process_whose_package_was_replaced_meanwhile_neither_reads_nor_writes_what_is_kept(python):
    small = site_packages(python) / "rpq" / "small_factor.py"
    # Of another length: Python itself looks at seconds and length.
    upgrade = f"import rpq.small_outer, time; time.sleep(0.05); open({str(small)!r}, 'w').write('FACTOR = 10 // 2\\n')\n"
    why = "the package was replaced while this process was running, which neither reads nor writes a cache since then"
    assert ask(python, first=upgrade) == (10, why)
    assert not list((site_packages(python) / "__pycache__").rglob("*.nbc"))
    assert ask(python)[0] == 19
    small.write_text("FACTOR = 2\n")
    assert ask(python, first=upgrade) == (10, why)
    assert ask(python)[0] == 19


@pytest.mark.ci
def test_a_cache_of_another_numba_is_named(python):
    ask(python)
    for path in (site_packages(python) / "__pycache__" / "rpq").glob("*.nbc"):
        first, _, rest = path.read_bytes().partition(b"\n")
        path.write_bytes(json.dumps(["0.1.2", *json.loads(first)[1:]]).encode() + b"\n" + rest)
    value, why = ask(python)
    assert value == 10 and " was made by numba 0.1.2, this is " in why


@pytest.mark.ci
def test_a_damaged_file_counts_as_none(python):
    ask(python)
    for left in (0, 10, 400, -1):
        for path in (site_packages(python) / "__pycache__" / "rpq").glob("*.nbc"):
            path.write_bytes(path.read_bytes()[:left])
        assert ask(python)[0] == 10, left
        assert ask(python) == (10, None), left


LOADED = """
import numpy as np
from numba.core.runtime import rtsys
from rpq.compiled.kernel_cache import why_compiled
from rpq.small_runtime import shifted
for _ in range(3):
    values = shifted(np.arange(3), 2)
try:
    shifted(values, -1)
except ValueError as error:
    print(values.tolist(), error, rtsys._init, why_compiled())
"""


@pytest.mark.ci
def test_a_kernel_is_loaded_without_the_compiler_where_that_is_known_to_be_enough(python):
    def loaded(first: str = "") -> str:
        return run(python, "-c", first + LOADED, cwd="/").stdout.strip()

    assert "there is no cache yet" in loaded()
    assert loaded() == "[2, 3, 4] a negative number False None"
    with_compiler = "[2, 3, 4] a negative number True None"
    assert loaded("import rpq.compiled.kernel_loading as loading; loading.CHECKED_VERSIONS = frozenset()") == with_compiler
    assert loaded("import numba, sys; sys.modules['numba.core.runtime._nrt_python'] = None") == with_compiler
    (path,) = (site_packages(python) / "__pycache__" / "rpq").glob("small_runtime*.nbc")
    content = path.read_bytes()
    kernel, _, symbols = content.rpartition(b"[[")
    for others in (b"[[" + symbols[:-2] + b', "no_such_symbol"]]', b""):
        path.write_bytes(kernel + others)
        assert loaded() == with_compiler


@pytest.mark.long
def test_processes_that_compile_at_the_same_time_disturb_nobody(python):
    # Two variants of each kernel, neither of which may be taken for the other.
    calls = [(3, 4), (1.5, 4.5)] * 2
    running = [
        subprocess.Popen([python, "-c", ASK, json.dumps(arguments)], stdout=subprocess.PIPE, text=True, cwd="/")
        for arguments in calls
    ]
    for (x, y), process in zip(calls, running, strict=True):
        assert json.loads(process.communicate()[0])[0] == 2 * x + y
    for x, y in calls[:2]:
        assert ask(python, (x, y)) == (2 * x + y, None)
    assert not list(site_packages(python).rglob("*.tmp.*"))


@pytest.mark.ci
def test_of_processes_that_need_a_kernel_at_the_same_time_one_compiles_it(python):
    running = [subprocess.Popen([python, "-c", ASK, "[3, 4]"], stdout=subprocess.PIPE, text=True, cwd="/") for _ in range(4)]
    found = [json.loads(process.communicate()[0]) for process in running]
    assert {value for value, *_ in found} == {10}
    assert len([why for *_, why in found if why is not None]) == 1


@pytest.mark.ci
@pytest.mark.parametrize("ends", [True, False], ids=["killed", "stuck"])
def test_nobody_waits_for_ever_for_a_process_that_is_to_compile(python, ends):
    stuck = """
import time
from numba.core.compiler import Compiler
def stuck(*_):
    print("compiling", flush=True)
    time.sleep(600)
Compiler.compile_extra = stuck
"""
    with subprocess.Popen([python, "-c", stuck + ASK, "[3, 4]"], stdout=subprocess.PIPE, text=True, cwd="/") as other:
        assert other.stdout.readline() == "compiling\n"
        try:
            patience = "from rpq.compiled.kernel_cache import _Turns\n_Turns.PATIENCE = 1.0\n"
            if ends:
                patience = ""
                threading.Timer(2.0, other.kill).start()
            assert ask(python, first=patience)[0] == 10
        finally:
            other.kill()


def test_a_full_disk_ends_nothing(python, tmp_path):
    script = """
import errno, logging, os, rpq.compiled.kernel_cache as cache
logging.basicConfig(format="%(levelname)s %(message)s")
written = cache._write
def full(path, content):
    if "site-packages" in str(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    written(path, content)
cache._write = full
"""
    done = run(python, "-c", script + ASK, "[3, 4]", cwd="/", env={"XDG_CACHE_HOME": str(tmp_path)})
    assert json.loads(done.stdout)[0] == 10
    assert done.stderr.count("WARNING kernels cannot be kept in") == 1 and os.strerror(errno.ENOSPC) in done.stderr
    assert list(tmp_path.rglob("*.nbc"))


@pytest.mark.ci
def test_the_engine_logs_once_why_kernels_are_compiled(python):
    script = "import logging; logging.basicConfig(format='%(name)s %(levelname)s %(message)s')\n"
    script += "from rpq.compiled.stopwatch import Stopwatch; Stopwatch().start()  # what an engine does first\n"
    lines = run(python, "-c", script + ASK, "[3, 4]", cwd="/").stderr.splitlines()
    warnings = [line for line in lines if line.startswith("rpq ")]
    beside = site_packages(python) / "__pycache__" / "rpq"
    message = f"rpq WARNING compiling kernels, which takes up to half a minute: there is no cache yet; kept in {beside}"
    assert warnings == [message]
    assert "rpq " not in run(python, "-c", script + ASK, "[3, 4]", cwd="/").stderr


def test_numba_is_what_it_was_for_others(python, tmp_path):
    (tmp_path / "theirs.py").write_text("import numba\n\n\n@numba.njit(cache=True)\ndef twice(x):\n    return 2 * x\n")
    script = """
import numba.core.caching as caching, numba.core.dispatcher as dispatcher, numba
before = [*caching.CacheImpl._locator_classes], caching.FunctionCache, dispatcher.FunctionCache, numba.njit
import rpq.engine.engine, theirs
assert before == (caching.CacheImpl._locator_classes, caching.FunctionCache, dispatcher.FunctionCache, numba.njit)
assert theirs.twice(2) == 4 and type(theirs.twice._cache) is caching.FunctionCache
"""
    run(python, "-c", script, cwd=tmp_path)
    assert list((tmp_path / "__pycache__").glob("theirs.twice*.nbi"))


@pytest.mark.ci
def test_every_kernel_of_the_package_is_kept_so():
    script = """
import pkgutil, rpq, numba
from rpq.compiled.kernel_cache import KernelCache
from rpq.compiled.kernel_loading import symbols_of
kernels = {}
for found in pkgutil.walk_packages(rpq.__path__, "rpq."):
    others = ("rpq.spark", "rpq.workloads.baselines.two_hops_")  # need what may not be installed, and have none
    if not found.name.startswith(others) and not found.name.endswith("__main__"):
        module = __import__(found.name, fromlist=["x"])
        for value in vars(module).values():
            if isinstance(value, numba.core.dispatcher.Dispatcher):
                kernels[value.py_func.__module__ + "." + value.__name__] = isinstance(value._cache, KernelCache)
print(len(kernels), [name for name, kept in kernels.items() if not kept])
"""
    count, _, others = run(Path(sys.executable), "-c", script, cwd=ROOT).stdout.strip().partition(" ")
    assert int(count) > 60 and others == "[]"


@pytest.mark.long
def test_the_digest_of_a_kernel_covers_all_that_it_is_compiled_from(tmp_path):
    # Of the kernels that apply tuples: every other kernel module of the index, the constants, blocks and views.
    package = shutil.copytree(ROOT / "rpq", tmp_path / "rpq", ignore=shutil.ignore_patterns("__pycache__"))
    script = "from rpq.compiled.kernel_sources import digest; print(digest('rpq.operators.paths.index.kernels'))"

    def printed_digest() -> str:
        return run(Path(sys.executable), "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {script}").stdout

    before = printed_digest()
    assert before == printed_digest() == digest("rpq.operators.paths.index.kernels") + "\n"
    for name in (
        *(f"operators/paths/index/{one}.py" for one in ("insert", "layout", "delete")),
        "compiled/arrays/lanes.py",
        "compiled/arrays/lists.py",
        "compiled/views.py",
    ):
        text = (package / name).read_text()
        (package / name).write_text(text + "# changed\n")
        assert printed_digest() != before, name
        (package / name).write_text(text)
    (package / "engine/engine.py").write_text("# changed\n")
    assert printed_digest() == before
