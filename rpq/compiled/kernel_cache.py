"""The cache of compiled kernels between runs; this module's `njit(cache=True)` is numba's with another cache.

numba chooses a single cache directory when a kernel is defined, and raises an error if none is writable; it does not
notice a change in another file of a kernel that the kernel calls; and two processes that compile two variants of
one kernel at the same time can each read the other's file as their own. In this cache

* there are several *places*, in this order: NUMBA_CACHE_DIR if it is set, `__pycache__` beside the package, the user's
  cache directory, and a private directory of the user among the temporary files. All are read up to the first writable
  one, which is written. The cache of an installation that only root can write thus serves all users, and missing
  kernels are added elsewhere. If no place is writable, kernels are compiled but not stored, without an error;
* a file contains one variant of one kernel for one processor, and its name identifies it: there is no index that two
  writers could corrupt, and a file appears complete or not at all;
* the first line of a file is its key: numba's version, the processor, and a digest of the kernel's module and of all
  modules of this package that it imports;
* after the kernel a file has the symbols that `kernel_loading.py` needs to load it without numba's compiler;
* a process whose package was replaced by an upgrade compiles without the cache, because its code differs from the files;
* a kernel for generic processors (`processors.py`) is used if there is none for this processor;
* if several processes need a kernel at the same time, one compiles it, and the others wait for the file;
* if a kernel must be compiled, `why_compiled` returns the reason, which the engine logs and the command shows.

numba itself is not changed: kernels of other packages are cached as usual.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import pickle
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numba
from numba import config
from numba.core import sigutils
from numba.core.caching import CompileResultCacheImpl, _Cache, _CacheLocator
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from rpq.compiled import callees
from rpq.compiled.kernel_loading import Symbols, is_checked, load, restored_environment, symbols_of
from rpq.compiled.kernel_sources import digest
from rpq.compiled.processors import common_names_here, difference
from rpq.compiled.views import View

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(os.path.abspath(__file__)).parent.parent
_PATH_AS_IMPORTED = os.path.dirname(os.path.dirname(__file__))
"""The same path as in the file names of functions: relative if the package was imported by a relative path."""
_log = logging.getLogger("rpq")
PACKAGE_REPLACED = (
    "the package was replaced while this process was running, which neither reads nor writes a cache since then"
)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's `njit(**options)`; with `cache=True`, compiled kernels are stored in the cache of this module."""
    is_cached = options.pop("cache", False)

    def decorate(function: Callable[..., Any]) -> Any:
        # Nobody calls a kernel from C.
        kernel = numba.njit(no_cfunc_wrapper=True, **options)(function)
        if not config.DISABLE_JIT:
            kernel.typeof_pyval = _type_of_argument(kernel)
            if is_cached:
                kernel._cache = KernelCache(function)
                if is_checked():
                    callees.call_as_callee(kernel, CalleeCache(function))
        return kernel

    return decorate


def _type_of_argument(kernel: Any) -> Callable[[Any], Any]:
    """Return the function by which a kernel's dispatcher determines the type of an argument that it does not know.

    A view has its type at hand. numba would look for it in several registries at every call, which takes longer than many a
    kernel.
    """
    type_of: Callable[[Any], Any] = kernel.typeof_pyval
    return lambda argument: argument.type if type(argument) is View else type_of(argument)


class CachePlace(NamedTuple):
    """A directory for the kernels of one folder of the package, and its parent directory for messages."""

    directory: Path
    known_as: Path


class KernelKey(NamedTuple):
    """The sources and the target of a compiled kernel; all fields must match."""

    numba: str
    sources: str
    signature: str
    triple: str
    processor: str
    features: str


class KernelContent(NamedTuple):
    """A compiled kernel as numba serialises it, and its symbols, None if they are unknown."""

    kernel: Any
    symbols: Symbols | None


class KernelCache(_Cache):
    """The compiled variants of one kernel, in all places."""

    def __init__(self, function: Any) -> None:
        self._function: FunctionType = function
        self._format = _Format(function)
        self._is_enabled = True

    # --- the interface that numba calls ----------------------------------------------------------------------

    @property
    def cache_path(self) -> str | None:
        """The directory for the next variant; None if no place is writable."""
        place = writable_place(self._file)
        return None if place is None else str(place.directory)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled variant for these argument types; if there is none, record the reason and return None."""
        if not self._is_enabled or not places(self._file):
            return None
        key = self._key(sig, target_context.codegen())
        if key is None:
            _record_reason(PACKAGE_REPLACED, self._function)
            return None
        content = self._find(key)
        if content is None:
            place = writable_place(self._file)
            if place is not None and _turns.take(place.directory / self._name(key)):
                content = self._find(key)
                if content is not None:
                    _turns.end(place.directory / self._name(key))
        if content is not None:
            return self._load(content, target_context)
        _record_reason(self._reason(key), self._function)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a variant in the first writable place, if there is one."""
        self._prepare(data)
        if not self._is_enabled or not places(self._file) or not self._format.check_cachable(data):
            return
        key = self._key(sig, data.codegen)
        if key is None:
            return
        content = json.dumps(key).encode() + b"\n" + self._content_of(data)
        while (place := writable_place(self._file)) is not None:
            path = place.directory / self._name(key)
            try:
                _write(path, content)
                return
            except OSError as error:
                _log.warning("kernels cannot be kept in %s: %s", place.directory, error.strerror or error)
                _refused.add(place.directory)
                places.cache_clear()
            finally:
                _turns.end(path)

    def enable(self) -> None:
        """Enable reading and writing."""
        self._is_enabled = True

    def disable(self) -> None:
        """Disable reading and writing."""
        self._is_enabled = False

    def flush(self) -> None:
        """Delete the files of this kernel's variants, if possible."""
        for place in places(self._file):
            for path in self._kernel_files(place):
                try:
                    path.unlink()
                except OSError:
                    continue

    # --- files -----------------------------------------------------------------------------------------------

    @property
    def _file(self) -> str:
        return self._function.__code__.co_filename

    @cached_property
    def _stem(self) -> str:
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        return f"{Path(self._file).stem}.{self._function.__qualname__}.{version}".replace("<", "").replace(">", "")

    def _key(self, sig: Any, codegen: Any) -> KernelKey | None:
        """Return the key of a variant; None if the sources have changed since this process started."""
        arguments, _ = sigutils.normalize_signature(sig)
        triple, processor, features = codegen.magic_tuple()
        sources = digest(self._function.__module__)
        if sources is None:
            return None
        return KernelKey(numba.__version__, sources, ", ".join(map(str, arguments)), triple, processor, features)

    def _name(self, key: KernelKey) -> str:
        # The name contains neither versions nor sources, so that outdated files are overwritten.
        variant = sha256(json.dumps(key[2:]).encode()).hexdigest()[:20]
        return f"{self._stem}.{variant}.nbc"

    def _load(self, content: KernelContent, target_context: Any) -> Any:
        return load(content.kernel, content.symbols, target_context, self._format.rebuild)

    def _prepare(self, data: Any) -> None:
        callees.set_environments(data)

    def _content_of(self, data: Any) -> bytes:
        symbols = symbols_of(data)
        return bytes(dumps(self._format.reduce(data))) + (b"" if symbols is None else json.dumps(symbols).encode())

    def _find(self, key: KernelKey) -> KernelContent | None:
        """Return the cached content for a key from any place, or None."""
        for fitting in _fitting(key):
            for place in places(self._file):
                content = self._read(place, fitting)
                if content is not None:
                    return content
        return None

    def _read(self, place: CachePlace, key: KernelKey) -> KernelContent | None:
        """Return the content for a key in one place; None if there is no file or the file is damaged."""
        try:
            with open(place.directory / self._name(key), "rb") as file:
                if _parse_line(file.readline()) != key:
                    return None
                kernel, symbols = _KernelReader(file).load(), file.read()
                return KernelContent(kernel, Symbols(*json.loads(symbols)) if symbols else None)
        except Exception:  # a damaged pickle can raise any exception
            return None

    def _kernel_files(self, place: CachePlace) -> list[Path]:
        try:
            return sorted(place.directory.glob(f"{self._stem}.*.nbc"))
        except OSError:
            return []

    def _reason(self, current: KernelKey) -> str:
        """Return why no cached variant matches, for the most similar file of this kernel."""
        found: list[tuple[int, str]] = []
        for place in places(self._file):
            where = f"the cache in {place.known_as}"
            for path in self._kernel_files(place):
                try:
                    key = _key_of(path)
                except OSError as error:
                    found.append((4, f"{where} cannot be read: {error.strerror or error}"))
                    continue
                if key is None:
                    found.append((0, f"{where} is damaged"))
                elif key.numba != current.numba:
                    found.append((1, f"{where} was made by numba {key.numba}, this is {current.numba}"))
                elif key.sources != current.sources:
                    found.append((2, f"{where} was made from another version of the kernels"))
                elif key.triple != current.triple:
                    found.append((3, f"{where} was made for {key.triple}, this is {current.triple}"))
                elif key[4:] != current[4:]:
                    found.append((3, f"{where} was {difference(key[4:], current[4:])}"))
                elif key.signature != current.signature:
                    found.append((5, f"{where} has no kernels for such a query yet"))
                else:
                    found.append((0, f"{where} is damaged"))
            if place.directory.is_dir() and not os.access(place.directory, os.R_OK | os.X_OK):
                found.append((4, f"{where} cannot be read: {os.strerror(errno.EACCES)}"))
        return max(found)[1] if found else "there is no cache yet"


class _KernelReader(pickle.Unpickler):
    """A reader of kernels that does not import the modules of numba whose functions they call."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == ("numba.core.environment", "_rebuild_env") and is_checked():
            return restored_environment
        return super().find_class(module_name, global_name)


class CalleeCache(KernelCache):
    """The compiled variants of one kernel that other kernels call: code without an entry from Python."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._of_python = KernelCache(function)

    @cached_property
    def _stem(self) -> str:
        return self._of_python._stem.replace(".py", ".callee.py", 1)

    def _load(self, content: KernelContent, target_context: Any) -> Any:
        return callees.rebuild(target_context, content.kernel)

    def _prepare(self, data: Any) -> None:
        pass  # a callee is not run

    def _content_of(self, data: Any) -> bytes:
        return bytes(dumps(callees.reduce(data)))

    def _find(self, key: KernelKey) -> KernelContent | None:
        """Return the cached content for a key: code for other kernels, or that which Python calls."""
        return super()._find(key) or self._of_python._find(key)


class _Format(CompileResultCacheImpl):
    """The serialisation of compiled code by numba, without its choice of a directory."""

    def __init__(self, function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = SimpleNamespace(_py_file=function.__code__.co_filename)  # for the text of numba's warning


def _parse_line(line: bytes) -> KernelKey | None:
    try:
        return KernelKey(*json.loads(line))
    except (ValueError, TypeError):
        return None


def _key_of(path: Path) -> KernelKey | None:
    """Return the key in the first line of a file; None if there is no such file, or no valid key."""
    try:
        with open(path, "rb") as file:
            return _parse_line(file.readline())
    except FileNotFoundError:
        return None


def _fitting(key: KernelKey) -> Iterator[KernelKey]:
    """Yield a key, then the keys of code for generic processors that runs on this processor."""
    yield key
    if config.CPU_NAME is None and config.CPU_FEATURES is None:
        for name in common_names_here():
            yield key._replace(processor=name, features="")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:16]}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


# --- turns -----------------------------------------------------------------------------------------------------------


class _Turns:
    """The kernels that this process is compiling, announced to other processes by a lock on one byte of a file per kernel.

    A kernel only calls kernels that do not call it, so no two processes wait for each other. The system releases the locks
    of a process that ends; on a system without such locks no process waits, and a kernel may be compiled twice.
    """

    PATIENCE = 300.0
    """Seconds after which a kernel is compiled here although another process seems to be compiling the same kernel."""

    def __init__(self) -> None:
        self._files: dict[Path, int] = {}
        self._locked: set[Path] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._locked.clear)

    def take(self, path: Path) -> bool:
        """Announce that this process will create a kernel's file; return whether it had to wait for another process."""
        if fcntl is None or path in self._locked:
            return False
        try:
            file = self._file(path.parent)
        except OSError:
            return False
        has_waited, end = False, time.monotonic() + self.PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte(path))
                self._locked.add(path)
                break
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    break
                has_waited = True
                time.sleep(0.02)
        return has_waited

    def end(self, path: Path) -> None:
        """Release the lock: the file exists, or will not be created."""
        if path in self._locked:
            self._locked.remove(path)
            with contextlib.suppress(OSError):
                fcntl.lockf(self._file(path.parent), fcntl.LOCK_UN, 1, self._byte(path))

    def _file(self, directory: Path) -> int:
        # The file stays open, because closing it would release all locks of this process.
        if directory not in self._files:
            directory.mkdir(parents=True, exist_ok=True)
            self._files[directory] = os.open(directory / ".turns", os.O_RDWR | os.O_CREAT, 0o666)
        return self._files[directory]

    def _byte(self, path: Path) -> int:
        return int.from_bytes(sha256(path.name.encode()).digest()[:7], "big")


_turns = _Turns()


# --- places ----------------------------------------------------------------------------------------------------------

_refused: set[Path] = set()
"""Directories that seemed writable but are not, for instance because the disk is full."""


@cache
def places(file: str) -> tuple[CachePlace, ...]:
    """Return the places of compiled kernels of a source file, up to the first writable one (or all, if there is none)."""
    found = []
    for place in _all_places(file):
        found.append(place)
        if _is_writable(place):
            break
    return tuple(found)


def writable_place(file: str) -> CachePlace | None:
    """Return the place for new compiled kernels of a source file; None if no place is writable."""
    return next((place for place in places(file) if _is_writable(place)), None)


def _all_places(file: str) -> Iterator[CachePlace]:
    folder = _folder_in_package(file)
    if folder is None:  # defined interactively
        return
    # Beside the package, not in it: an uninstall would leave a folder `rpq` of kernels, which could still be imported.
    roots = [PACKAGE.parent / "__pycache__" / PACKAGE.name]
    if config.CACHE_DIR:  # for all installations: kernels depend on what files contain, not on where they are
        roots.insert(0, Path(config.CACHE_DIR) / PACKAGE.name)
    # The other places have a folder for each installation.
    installation = _installation()
    user = Path(AppDirs(appname="streaming-rpq", appauthor=False).user_cache_dir)
    if user.is_absolute():  # "~/.cache" if the home directory is unknown
        roots.append(user / installation)
    for root in roots:
        yield CachePlace(root / folder, root)
    private = _private_temporary()
    if private is not None:
        yield CachePlace(private / installation / folder, private / installation)


def _folder_in_package(file: str) -> Path | None:
    """Return the folder of a source file relative to the package; None if it is not in the package."""
    for package in (str(PACKAGE), _PATH_AS_IMPORTED):
        if file.startswith(f"{package}{os.sep}"):
            return Path(file[len(package) + 1 :]).parent
    return None


def _installation() -> str:
    """Return a name that distinguishes this installation from other installations of the same user."""
    if PACKAGE.parent.is_file():
        # A wheel that Spark distributes, for instance, to a different folder each time: its name contains the version.
        return f"shipped-{PACKAGE.parent.stem}"
    return str(_CacheLocator.get_suitable_cache_subpath(str(PACKAGE / "__init__.py")))


def _private_temporary() -> Path | None:
    """Return a private directory of the user among the temporary files, since its content will be executed."""
    if not hasattr(os, "getuid"):
        return None
    try:
        path = Path(tempfile.gettempdir(), f"streaming-rpq-{os.getuid()}")
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return None
    is_private = status.st_uid == os.getuid() and status.st_mode & 0o077 == 0
    return path if is_private and path.is_dir() and not path.is_symlink() else None


def _is_writable(place: CachePlace) -> bool:
    if place.directory in _refused:
        return False
    existing = next(path for path in (place.directory, *place.directory.parents) if os.path.exists(path))
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


# --- reasons ---------------------------------------------------------------------------------------------------------

_reasons: list[str] = []
"""The reason for compiling the first kernel of this process, in a list of at most one item; later ones follow from it."""


def _record_reason(reason: str, function: FunctionType) -> None:
    if not _reasons:
        _reasons.append(reason)
    _log.debug("compiling %s.%s: %s", function.__module__, function.__qualname__, reason)


def _location_text(file: str) -> str:
    place = writable_place(file)
    if place is not None:
        return f"kept in {place.known_as}"
    tried = ", ".join(str(place.known_as) for place in places(file))
    return f"not kept, since none of these can be written: {tried}"


def why_compiled() -> str | None:
    """Return why kernels were compiled in this process, and where they are stored; None if all came from the cache."""
    if not _reasons or _reasons[0] == PACKAGE_REPLACED:
        return _reasons[0] if _reasons else None
    return f"{_reasons[0]}; {_location_text(__file__)}"
