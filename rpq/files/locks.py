"""Locks on open files, and whether an open file is still the one at its path.

A lock belongs to the file and not to its path: if the file is removed, another process can create and lock a new one.
Whoever relies on a lock therefore checks the path after each write, before anything is acknowledged.
"""

from __future__ import annotations

import os

from rpq.files.destinations import WriteError


class ReplacedFileError(WriteError):
    """A file that was removed or replaced while it was in use: what is written to it is lost."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process, if system and disk have locks; return False if another process has locked it."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def check_in_place(descriptor: int, path: str) -> None:
    """Raise `ReplacedFileError` if the file at a path is another one than the open file."""
    try:
        is_same = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        is_same = False
    if not is_same:
        raise ReplacedFileError(f"{path}: was removed or replaced while it was in use; nothing more is written to it")
