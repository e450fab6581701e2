"""`rpq warm-up`, and that it leaves nothing to be compiled."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from base64 import b64decode
from pathlib import Path

import pytest
from click.testing import CliRunner

import rpq
from rpq.cli import main
from rpq.cli.reporting import notice_after
from rpq.compiled import kernel_cache
from rpq.compiled.processors import NEEDS, common_names_here, difference, is_known
from rpq.engine import compilation
from rpq.engine.warmup import VARIANTS, variants, warm_up_steps
from tests.services.environments import ALL_LOADED, ROOT, run

# What users ask, one for each thing that might need another kernel; whatever the window, the kernels are the same.
USES = """
import json, sys, tempfile
import rpq
from numba.core.dispatcher import Dispatcher
from rpq.engine.warmup import Variant, warm_up_variant

slides, paths = int(sys.argv[1]), sys.argv[2]
warm_up_variant(Variant(slides, paths))

def called():
    # Of kernels that only other kernels call, those variants are listed that were loaded on their own.
    return {
        (name, value.__name__): set(value.overloads)
        for name, module in sys.modules.items() if name.startswith("rpq.")
        for value in vars(module).values() if isinstance(value, Dispatcher)
    }

before = called()
packages = ("rpq.operators.bags.", "rpq.operators.relational.")
kernels = {
    value for name, module in list(sys.modules.items()) if name.startswith(packages)
    for value in vars(module).values() if isinstance(value, Dispatcher)
}
of_kernels = {name for kernel in kernels for name in kernel.py_func.__code__.co_names}
never_run = sorted(one.__name__ for one in kernels if not one.overloads and one.__name__ not in of_kernels)
window = rpq.Window(size=slides, slide=1)
for text in (True, False):
    v = (lambda n: f"vertex {n}") if text else int
    long = (lambda n: f"a vertex with a longer name, {n}") if text else int
    for expression in ("a", "a/b*/c", "(a|b|c)+", "(a/b)+", "a/^b", "!a"):
        for semantics in ("implicit", "explicit"):
            for options in ({}, {"witness": True}, {"threads": 2}):
                query = rpq.Query(expression, window=window, paths=paths, semantics=semantics, name="q",
                                  simple_budget=50, on_budget="set_aside", sources=[v(n) for n in range(0, 60, 2)])
                engine = rpq.Engine(query, **options)
                rows = [(v(n * 7 % 60), v(n * 11 % 60), "abcd"[n % 4], n // 50, "+-"[n % 9 == 8]) for n in range(600)]
                engine.push_rows(rows[:300]).to_arrow()
                engine.push_rows(rows[300:])
                engine.push_rows([(v(100 + n), v(101 + n), "a", 20) for n in range(400)])
                engine.register(rpq.Query("b*/c", window=window, paths=paths, name="other", targets=[v(1)]), start="empty")
                engine.insert(v(0), v(1), "a", 21)
                engine.push_rows([(long(n), long(n + 1), "abc"[n % 3], 21) for n in range(100)]).to_arrow()
                for source, target in [*engine.answers("q").pairs()][:3]:
                    engine.witness(source, target, "q")
                engine.set_aside("q")
                with tempfile.TemporaryDirectory() as folder:
                    engine.save(folder + "/state")
                    engine = rpq.Engine.restore(folder + "/state", **options)
                engine.delete(v(0), v(1), "a", 21)
                engine.advance(30)
                engine.statistics()
                engine.unregister("other")
                engine.advance(30 + min(slides, 1000))
    patterns = [
        rpq.Query("?x a ?y . ?y b ?z . ?z c ?x", window=window, name="one", semantics="explicit"),
        rpq.Query("?x a ?y . ?x a ?z . ?z b _:u . ?y c _:v", window=window, name="two", matching="isomorphism"),
        rpq.Query("?y a ?x . ?y b ?z", window=window, name="as the first", select=["x", "y", "z"], distinct=True),
        rpq.Query("?x a '\\"1\\"' . ?y b ?z", window=window, name="a literal"),
        rpq.Query("?x a '\\"1\\"' . ?y b ?x", window=window, name="another", distinct=True),
        rpq.Query(f"?x a '{v(3)}' . ?y b ?z", window=window, name="three", select=["x"], distinct=True),
    ]
    for options in ({}, {"threads": 2}, {"share": (0, 2)}):
        engine = rpq.Engine(*patterns, **options)
        engine.push_rows(rows[:300])
        changes = engine.push_rows(rows[300:] + [(v(100 + n), v(101 + n), "a", 20) for n in range(400)])
        tables = [changes.to_arrow(query.name) for query in engine.queries]
        engine.push_rows([(long(n), long(n + 1), "abc"[n % 3], 20) for n in range(100)]).to_arrow("one")
        engine.register(rpq.Query("?x b ?y . ?y c ?z", window=window, name="other"), start="empty")
        engine.register(rpq.Query("?x ^c ?y", window=rpq.Window(size=7, slide=2), paths="simple", name="more"))
        engine.insert(v(0), v(1), "a", 21)
        for query in engine.queries:
            engine.answers(query.name)
        with tempfile.TemporaryDirectory() as folder:
            engine.save(folder + "/state")
            engine = rpq.Engine.restore(folder + "/state")
        engine.delete(v(0), v(1), "a", 21)
        engine.statistics()
        engine.unregister("more")
        engine.advance(30 + min(slides, 1000))
    many = [rpq.Query(f"?x a '{v(n)}' . ?x b ?y", window=window, name=str(n)) for n in range(100)]
    engine = rpq.Engine(*many, _sharing="always")
    engine.push_rows(rows)
    for edges in ("triple", "parallel", "id"):
        query = rpq.Query("a[n > 3]/(b|c[n > 5])*", window=window, paths=paths, semantics="explicit", name="one")
        pattern = rpq.Query("?x a[n > 3] ?y . ?y a[n > 5] ?z . ?z b ?x", window=window, name="two")
        engine = rpq.Engine(query, pattern, edges=edges)
        for begin in range(0, len(rows), 200):
            columns = zip(("source", "target", "label", "timestamp", "op"), zip(*rows[begin : begin + 200]))
            values = {name: list(column) for name, column in columns}
            given = {**values, "n": [number % 9 for number in range(200)], "edge": [v(number % 90) for number in range(200)]}
            engine.push(given).to_arrow("one")
        with tempfile.TemporaryDirectory() as folder:
            engine.save(folder + "/state")
            engine = rpq.Engine.restore(folder + "/state")
        engine.delete(v(0), v(1), "a", 21)
        engine.advance(30 + min(slides, 1000))
    numbered = rpq.CountWindow(size=slides)
    for options in ({}, {"witness": True}, {"threads": 2}):
        queries = [
            rpq.Query("a/b*/c", window=numbered, paths=paths, semantics="explicit", name="one"),
            rpq.Query("!a", window=rpq.UnboundedWindow(), paths=paths, name="two"),
            rpq.Query("a/b", window=window, paths=paths, name="three"),
        ]
        if "witness" not in options:
            queries.append(rpq.Query("?x a ?y . ?y b _:z", window=rpq.CountWindow(size=50, step=7), name="four"))
            queries.append(rpq.Query("?x a ?y . ?u b ?z", window=rpq.UnboundedWindow(), name="five", select=["x"]))
        engine = rpq.Engine(*queries, **options)
        engine.load_static([(v(n), v(n * 3 % 60), "abc"[n % 3]) for n in range(300)])
        engine.push_rows(rows[:200])
        engine.push_rows(rows[200:])
        engine.register(rpq.Query("b*/c/a", window=numbered, paths=paths, name="other"))
        engine.insert(v(0), v(1), "a", 21)
        with tempfile.TemporaryDirectory() as folder:
            engine.save(folder + "/state")
            engine = rpq.Engine.restore(folder + "/state", **options)
        engine.delete(v(0), v(1), "a", 21)
        engine.statistics()
        engine.unregister("other")
        engine.advance(30 + min(slides, 1000))
after = called()
late = [f"{key} {kind}" for key, kinds in after.items() for kind in kinds - before.get(key, set())]
print(json.dumps(late + [f"{name} is never run by warm-up: add a query to _solve" for name in never_run]))
"""


def test_a_notice_is_printed_again_once_it_is_known_that_kernels_are_compiled(capsys):
    compiled = threading.Event()

    def notice() -> str:
        return "compiling" if compiled.is_set() else "loading"

    printed = ""
    with notice_after(0.01, notice, shown=True):
        for _ in range(2):
            until = time.monotonic() + 60
            while (more := capsys.readouterr().err) == "" and time.monotonic() < until:
                time.sleep(0.01)
            printed += more
            compiled.set()
    assert printed == "loading\ncompiling\n"


@pytest.mark.long
@pytest.mark.parametrize("paths", ["walk", "simple"])
def test_nothing_is_left_to_compile(paths):
    assert run(Path(sys.executable), "-c", USES, 10, paths, cwd=ROOT).stdout == "[]\n"


@pytest.mark.parametrize(("slides", "widths"), [(248, 1), (249, 2), (10**18, 4)])
def test_windows_of_few_slides_need_few_variants(slides, widths):
    assert sorted(variants(slides)) == sorted(v for v in VARIANTS if v.slides in {v.slides for v in VARIANTS[:widths]})


def test_processes_take_the_steps_of_warm_up_in_turn(monkeypatch):
    jobs = 3
    calls = []

    def compile_some(call, lines, report):
        calls.append(call)
        for line in lines:
            calls.append(line)
            report(line)

    monkeypatch.setattr(compilation, "_compile", compile_some)
    done = CliRunner().invoke(main, ["warm-up", "--slides", "300", "--jobs", str(jobs)])
    steps = range(len(warm_up_steps(300)))
    assert done.exit_code == 0, done.output
    assert sorted(calls) == sorted([*map(str, steps), *["run_warm_up_steps(300)"] * jobs])
    assert len(warm_up_steps(1)) < len(steps) < len(warm_up_steps())


@pytest.mark.parametrize(("reason", "jobs", "apart"), [("there is no cache yet", 2, 1), ("as before", 1, 0), (None, 2, 0)])
def test_while_kernels_of_a_query_are_compiled_other_processes_compile_those_of_the_next(monkeypatch, reason, jobs, apart):
    compile_lines, window = compilation._compile, rpq.Window(size=10, slide=1)
    compiled: list[str] = []
    monkeypatch.setattr(compilation, "_compile", lambda call, lines, report: compile_lines(call, lines, compiled.append))
    monkeypatch.setattr(compilation, "why_compiled", lambda: reason)
    queries = [compilation.WarmUp(rpq.Query(text, window=window)) for text in ("a/b*", "?x a ?y . ?y b ?z")]
    assert len(list(compilation.warm_up_each(queries, jobs=jobs))) == len(queries)
    assert [pickle.loads(b64decode(line)) for line in compiled] == queries[1 : 1 + apart]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL: is there enough memory[?]"),
        ("raise ImportError('no such thing')", "kernels cannot be compiled:\n(.*\n)*ImportError: no such thing"),
    ],
)
def test_a_process_that_cannot_compile_ends_warm_up_with_its_reason(monkeypatch, code, message):
    started = subprocess.Popen

    def start(command, **options):
        return started([*command[:-1], code], **options)

    monkeypatch.setattr(compilation.subprocess, "Popen", start)
    with pytest.raises(compilation.CompilationError, match=message):
        list(compilation.compile_all(slides=1, jobs=2))


def test_queries_warm_up_the_kernels_of_their_first_rows_alone():
    script = """
import rpq
from rpq.engine.running.derived_edges import rows_to_apply
from rpq.operators.paths.closure import kernels as bits
from rpq.operators.paths.simple import judge
from rpq.operators.patterns.joins import updates
window = rpq.Window(size=10, slide=1)
rpq.warm_up(rpq.Query("?x a ?y . ?y b ?z", window=window))
rpq.warm_up(rpq.Query("a/b*/c", window=window, paths="simple"))
rpq.warm_up(rpq.Query("SELECT ?x { ?x <a> ?y }", window=window))
rpq.warm_up(rpq.Query("a[n > 1 and kind = 'x']/b*", window=window))
kernels = (judge.judge_insert, updates.apply_tuples, rows_to_apply, bits.apply_chunk)
print([bool(kernel.overloads) for kernel in kernels])
"""
    assert run(Path(sys.executable), "-c", script, cwd=ROOT).stdout == "[True, True, True, False]\n"


def refused_processor(name: str) -> str:
    env = {"NUMBA_CPU_NAME": None, "NUMBA_CPU_FEATURES": None}
    done = CliRunner().invoke(main, ["warm-up", "--cpu", name], env=env)
    assert done.exit_code == 2
    return done.output


def test_a_processor_that_nobody_knows_is_refused():
    output = refused_processor("pentium-9")
    assert "--cpu pentium-9: LLVM knows no such processor" in output and "x86-64-v3" in output


def test_a_processor_that_can_do_more_than_this_one_is_refused(monkeypatch):
    if not is_known("x86-64-v4"):
        pytest.skip("another kind of machine")
    monkeypatch.setattr("rpq.compiled.processors.features_here", lambda: NEEDS["x86-64-v4"] - {"avx512bw"})
    assert "this machine lacks avx512bw" in refused_processor("x86-64-v4")


def test_without_compilation_it_is_refused(monkeypatch):
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 1)
    done = CliRunner().invoke(main, ["warm-up"])
    assert done.exit_code == 2 and "NUMBA_DISABLE_JIT is set" in done.output


def test_where_nothing_can_be_written_it_ends_with_an_error(monkeypatch):
    monkeypatch.setattr(kernel_cache, "_is_writable", lambda place: False)
    kernel_cache.places.cache_clear()
    try:
        done = CliRunner().invoke(main, ["warm-up"])
    finally:
        monkeypatch.undo()
        kernel_cache.places.cache_clear()
    assert done.exit_code == 1 and "there is no place for the kernels: none of these folders can be written: " in done.output


def test_generic_code_runs_everywhere():
    assert common_names_here()[-1] == "generic" and "x86-64-v4" not in common_names_here()[1:]
    assert "with avx512f, avx512vl" in difference(("x", "+avx512f,+avx512vl,+sse"), ("x", "-avx512f,+sse"))


@pytest.mark.long
@pytest.mark.parametrize("cpu", ["generic"])
def test_all_is_compiled_once_and_found_by_those_who_run_later(tmp_path, cpu):
    """From an empty cache in another folder, for one kind of processors.

    CI begins with an empty cache too: the README's second command compiles the kernels for windows of few slides in a fresh
    copy of the checkout. They are lent to the image.
    """
    env = {"NUMBA_CACHE_DIR": str(tmp_path)}
    arguments = ["-m", "rpq.cli", "warm-up", "--jobs", "2", *(["--cpu", cpu] if cpu else [])]
    done = run(Path(sys.executable), *arguments, cwd=ROOT, env=env)
    assert done.stderr == "", "no progress where nobody looks"
    assert done.stdout.startswith(f"kernels for {cpu or 'this processor'} are in {tmp_path}")
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert len(written) > 500
    # On this processor: what was made for all processors serves as well.
    assert run(Path(sys.executable), "-c", ALL_LOADED, cwd=ROOT, env=env).stdout == "None\n"
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
