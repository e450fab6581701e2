"""Files that are put in place as a whole, grow in place, or are written where they are; and files that are one file."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rpq.files import destinations
from rpq.files.destinations import SameFileError, check_distinct
from rpq.files.locks import try_lock

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, modes and devices of another kind")


@pytest.fixture(params=["unnamed", "hidden"], autouse=True)
def temporary(request, monkeypatch):
    """Both ways to write beside a file: without a name, and where the system has no such files."""
    if request.param == "hidden":
        monkeypatch.setattr(destinations, "_UNNAMED", 0)


def write(path, content=b"new"):
    with destinations.open_replacement(path) as file:
        file.write(content)


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    with destinations.open_replacement(path) as file:
        file.write(b"whole")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    with pytest.raises(KeyboardInterrupt), destinations.open_replacement(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_disk_without_locks_is_used_without_them(tmp_path, monkeypatch):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (tmp_path / "lock").open("w") as file:
        assert try_lock(file.fileno())


def test_a_symbolic_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "real").write_bytes(b"old")
    (tmp_path / "between").symlink_to("there/real")
    (tmp_path / "link").symlink_to(tmp_path / "between")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "between").is_symlink()
    assert (tmp_path / "there" / "real").read_bytes() == b"new"
    (tmp_path / "dangling").symlink_to("there/later")
    write(tmp_path / "dangling")
    assert (tmp_path / "there" / "later").read_bytes() == b"new" and (tmp_path / "dangling").is_symlink()


def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path):
    path = tmp_path / "a.txt"
    before = os.umask(0o027)
    try:
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o606)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o606
    finally:
        os.umask(before)


def test_a_new_private_file_is_for_its_owner_alone_and_one_that_was_opened_stays(tmp_path):
    path = tmp_path / "state"
    with destinations.open_replacement(path, is_private=True) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with destinations.open_replacement(path, is_private=True) as file:
        file.write(b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_replaced_file_keeps_its_owner_where_that_can_be(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def test_a_fifo_is_written_to_and_stays(tmp_path):
    path, read = tmp_path / "fifo", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert read == [b"new"] and stat.S_ISFIFO(path.stat().st_mode)


def test_standard_output_is_written_to_where_it_stands(tmp_path):
    """Redirected to a file that has something in it already, it goes on behind that."""
    code = "import os, rpq.files.destinations as f\nos.write(1, b'first ')\n"
    code += "with f.open_replacement('/dev/stdout') as file: file.write(b'second')"
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, cwd=Path(__file__).parents[2])
    assert (tmp_path / "out").read_bytes() == b"first second"


def test_a_file_whose_folder_takes_none_is_copied_into(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"something long")
    number = path.stat().st_ino
    real = os.open

    def refusing(name, flags, *rest, **more):
        if str(name).startswith(str(tmp_path)) and flags & (os.O_CREAT | getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(name, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refusing)
    with destinations.open_replacement(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"something long"
    assert path.read_bytes() == b"new" and path.stat().st_ino == number


def test_a_file_that_cannot_be_renamed_to_is_copied_into(tmp_path, monkeypatch):
    """A file that is mounted on its own into a container cannot be replaced by renaming."""

    def refuse(*args, **more):
        raise OSError(errno.EBUSY, "Device or resource busy")

    path = tmp_path / "a.txt"
    path.write_bytes(b"something long")
    monkeypatch.setattr(os, "replace", refuse)
    write(path)
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        (".", "is a folder"),
        ("nowhere/a", "there is no folder .*nowhere"),
        ("file/a", "Not a directory|is not a folder"),
        ("circle", "form a cycle|Too many levels"),
        ("/proc/nothing", "/proc/nothing: cannot be written"),
    ],
)
def test_what_cannot_be_written_is_said_before(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    Path("circle").symlink_to("circle")
    before = sorted(os.listdir())
    for check in (destinations.check_writable, destinations.Replacement, destinations.GrowingFile):
        with pytest.raises(destinations.WriteError, match=message):
            check(name)
    assert sorted(os.listdir()) == before


def test_what_is_write_protected_is_said_before(tmp_path):
    """The command runs as an ordinary user, because root may write everything."""
    folder = tmp_path / "locked"
    folder.mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o444)
    folder.chmod(0o555)
    code = (
        "import os, sys, rpq.files.destinations as f\n"
        "if os.geteuid() == 0: os.chdir('/'); os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try: f.check_writable(path)\n"
        "    except f.WriteError as error: print(error)"
    )
    for above in (tmp_path, *tmp_path.parents):
        if above.owner() == tmp_path.owner() and not above.stat().st_mode & 1 and os.geteuid() == 0:
            above.chmod(above.stat().st_mode | 0o111)
    args = [sys.executable, "-c", code, str(folder / "new"), str(tmp_path / "file")]
    done = subprocess.run(args, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert done.stdout.splitlines() == [
        f"{folder / 'new'}: cannot be written: the folder {folder} is write-protected",
        f"{tmp_path / 'file'}: cannot be written: it is write-protected",
    ]


def test_a_growing_file_is_emptied_at_its_first_use_and_cut_where_it_goes_on(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    growing = destinations.GrowingFile(path)
    assert path.read_bytes() == b"old"
    growing.discard()
    assert path.read_bytes() == b"old"
    growing = destinations.GrowingFile(path)
    growing.file.write(b"12345")
    growing.file.flush()
    assert path.read_bytes() == b"12345"
    growing.discard(whole=4)
    assert path.read_bytes() == b"1234"
    again = destinations.GrowingFile(path, position=2)
    again.file.write(b"x")
    again.put_in_place()
    assert path.read_bytes() == b"12x"
    with pytest.raises(destinations.WriteError, match="it was changed"):
        destinations.GrowingFile(path, position=9)
    new = destinations.GrowingFile(tmp_path / "b.txt")
    new.file.write(b"1")
    new.discard()
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A folder with the file `a` and every other way to say it."""
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("x")
    Path("folder").mkdir()
    os.link("a", "hard")
    Path("soft").symlink_to("a")
    Path("by-folder").symlink_to(".")
    Path("dangling").symlink_to("folder/new")


SAME = [
    ("a", "a"),
    ("a", "./a"),
    ("a", "hard"),
    ("hard", "soft"),
    ("by-folder/a", "soft"),
    ("new", "by-folder/new"),
    ("folder/new", "dangling"),
    ("-", "/dev/stdout"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_file_for_two_purposes_is_refused(named, one, other):
    with pytest.raises(SameFileError, match=f"--output {one} and --stats {other} are the same file"):
        check_distinct(written=[("--output", one), ("--late", "else"), ("--stats", other)])
    if one != "-":
        with pytest.raises(SameFileError, match=f"--output {other} and --input {one} are the same file"):
            check_distinct(written=[("--output", other)], read=[("--input", one)])
        with pytest.raises(SameFileError):
            check_distinct(written=[("--output", str(Path(other).absolute()))], read=[("--input", one)])


def test_different_files_are_not_refused(named):
    check_distinct(
        written=[("--output", "b"), ("--stats", "folder/b"), ("--late", "/dev/null"), ("--log", "/dev/null")],
        read=[("--input", "a"), ("--input", "hard"), ("--input", "-")],
    )
    check_distinct(written=[("--output", "-")], read=[("--input", "-")])
    check_distinct(written=[("--output", "folder/a.csv"), ("--stats", "_a.parquet")], read=[("--input", ".")])


def test_a_parquet_file_in_a_folder_that_is_read_is_read(named):
    for name in ("folder/new.parquet", "by-folder/folder/deeper/new.parquet"):
        with pytest.raises(SameFileError, match=r"is inside --input \."):
            check_distinct(written=[("--output", name)], read=[("--input", ".")])
