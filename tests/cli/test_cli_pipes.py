"""`rpq run` between other programs: slow pipes, closed pipes, Ctrl-C.  Real processes, real signals."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

fcntl = pytest.importorskip("fcntl", reason="signals and pipes of another kind")

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and pipes of another kind")


@pytest.fixture
def start():
    """Start the command with pipes on all sides; what is still there at the end is killed."""
    processes: list[subprocess.Popen] = []

    def run(*args: object, ignores_interrupts: bool = False) -> subprocess.Popen:
        command = [sys.executable, "-m", "rpq.cli", "run", "a+", "--window", "100", "--slide", "10", "--input", "-"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        handler = signal.SIG_IGN if ignores_interrupts else signal.SIG_DFL  # otherwise as for the tests, perhaps in a script
        process = subprocess.Popen(
            [*command, *map(str, args)],
            cwd=ROOT,
            bufsize=0,
            preexec_fn=lambda: signal.signal(signal.SIGINT, handler),  # noqa: PLW1509  no other thread holds a lock here
            **pipes,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def feed(process: subprocess.Popen, text: str) -> None:
    process.stdin.write(text.encode())


def read_line(process: subprocess.Popen) -> str:
    """The next line of standard output, waited for with patience, not for ever."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + PATIENCE
        while not line.endswith(b"\n"):
            assert selector.select(deadline - time.monotonic()), f"nothing came behind {line!r}"
            byte = process.stdout.read(1)
            assert byte, process.stderr.read().decode()
            line += byte
    return line.decode().rstrip("\n")


def test_a_row_comes_while_the_input_stays_open(start):
    process = start("--output", "-")
    assert read_line(process) == "source,target,timestamp,op"
    for time_ in range(3):
        feed(process, f"x{time_} y a {time_}\n")
        assert read_line(process) == f"x{time_},y,{time_},+"
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"") and b"3 added" in err


@pytest.mark.ci
def test_an_interrupt_leaves_whole_files_and_a_summary(start, tmp_path):
    number = signal.SIGTERM
    files = {name: tmp_path / name for name in ("late.csv", "stats.json")}
    process = start("--output", "-", "--late", files["late.csv"], "--stats", files["stats.json"])
    read_line(process)
    feed(process, "x y a 500\ny z a 1\nx z a 500\n")
    assert {read_line(process), read_line(process)} == {"x,y,500,+", "x,z,500,+"}
    process.send_signal(number)
    assert process.wait(PATIENCE) == 128 + number
    err = process.stderr.read().decode()
    assert "interrupted" in err and "3: 2 inserted, 1 late" in err and "Traceback" not in err
    assert files["late.csv"].read_text().splitlines() == ["source,target,label,timestamp,op", "y,z,a,1,+"]
    assert json.loads(files["stats.json"].read_text())["exit_code"] == 128 + number


def interrupt_while_nobody_reads(process: subprocess.Popen) -> None:
    """Send a signal while the output is full; return when the run says that it waits for its reader."""
    read_line(process)
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    for name in "vw":  # the rows of one chain fill most of the page, those of the other one wait in Python
        feed(process, "".join(f"{name}{number} {name}{number + 1} a 0\n" for number in range(24)))
        time.sleep(1)
    process.send_signal(signal.SIGINT)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        assert selector.select(PATIENCE), "the run waits and does not say so"
    assert b"another Ctrl-C ends it at once" in process.stderr.read(1 << 12)


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="a pipe of one page is made on Linux")
def test_a_second_interrupt_does_not_wait_for_a_reader_that_takes_nothing(start):
    """Also in the background of a script, where the shell lets programs ignore Ctrl-C."""
    process = start("--output", "-", "--quiet", ignores_interrupts=True)
    interrupt_while_nobody_reads(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="a pipe of one page is made on Linux")
def test_an_interrupt_that_waits_for_a_reader_says_so(start):
    process = start("--output", "-", "--quiet")
    interrupt_while_nobody_reads(process)
    out, err = process.communicate(timeout=PATIENCE)  # which reads the output
    assert process.returncode == 130 and len(out.splitlines()) == 2 * 24 * 25 // 2 and b"Traceback" not in err


@pytest.mark.ci
def test_a_closed_output_pipe_ends_cleanly(start, tmp_path):
    process = start("--output", "-", "--stats", tmp_path / "stats.json")
    assert read_line(process) == "source,target,timestamp,op"
    process.stdout.close()
    feed(process, "x y a 1\n")  # its row finds nobody; the input stays open
    assert process.wait(PATIENCE) == 0
    err = process.stderr.read().decode()
    assert "nobody reads" in err and "Traceback" not in err and "Exception" not in err
    assert (tmp_path / "stats.json").exists()
