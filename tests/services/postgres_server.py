"""A PostgreSQL server for the tests: a cluster of its own in a temporary folder, at a Unix socket and a free port.

The programs are those of Debian's package `postgresql`, or of the folder `RPQ_POSTGRES`.  They refuse to run as root, so
root starts them as the user postgres, or nobody.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.services.kafka_broker import die_with_parent, free_ports

PASSWORD = "open sesame/@1"
STARTUP_SECONDS = 60


class NoServer(Exception):
    """There can be no server here; says why."""


def programs() -> Path:
    """The folder of the newest server's programs; `NoServer` without one."""
    given = os.environ.get("RPQ_POSTGRES")
    if given:
        return Path(given)
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    found = [folder for folder in folders if (folder / "initdb").exists()]
    initdb = shutil.which("initdb")
    if not found and initdb is None:
        raise NoServer("PostgreSQL is not installed")
    return found[-1] if found else Path(str(initdb)).parent


class Server:
    """A server whose data lie in a folder: it may be stopped or killed, and started again where it stood.

    The user rpq may connect at the socket without a password, and at the port with `PASSWORD`.
    """

    def __init__(self, folder: Path) -> None:
        self._programs, self.folder, self._data = programs(), folder, folder / "data"
        (self.port,) = free_ports(1)
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            names = {one.pw_name: one for one in pwd.getpwall()}
            owner = names.get("postgres") or names["nobody"]
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            self._user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        access = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password}"]
        self._call("initdb", "-D", self._data, "-U", "rpq", "-E", "UTF8", "--locale=C", "-N", *access)
        self._process: subprocess.Popen[bytes] | None = None

    def _call(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self._user)
        if made.returncode:
            raise NoServer(f"{program}: {made.stdout}{made.stderr}")

    def start(self) -> Server:
        """Start it; returns when it answers."""
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        settings |= {"fsync": "off"}
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls the system alone
                **self._user,
            )
        until = time.monotonic() + STARTUP_SECONDS
        while True:
            with contextlib.suppress(Exception):
                self.rows("SELECT 1")
                return self
            if self._process.poll() is not None or time.monotonic() > until:
                raise NoServer(f"the server does not answer: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it, at once by default, and see that it is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None

    @property
    def login(self) -> str:
        """The URL of the database at the socket, without a table."""
        return f"postgresql://rpq@/postgres?host={self.folder}&port={self.port}"

    def url(self, table: str) -> str:
        """The URL of a table, as an output."""
        return f"{self.login}&table={table}"

    def new(self, name: str = "answers") -> str:
        """A name that no table has."""
        return f"{name}_{uuid.uuid4().hex[:8]}"

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.login) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(map(tuple, cursor.fetchall()))

    def run(self, *statements: str) -> None:
        """Run statements without rows in a transaction."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.login) as connection:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            connection.commit()


@contextlib.contextmanager
def started_or_skipped() -> Iterator[Server]:
    """A server; where there can be none tests skip, but fail where `RPQ_NEEDS_POSTGRES` is set."""
    import pytest

    # Not in the folder of the tests: the path of a socket may have a hundred bytes, and another user must get there.
    folder = Path(tempfile.mkdtemp(prefix="rpq-pg-"))
    try:
        try:
            import adbc_driver_postgresql  # noqa: F401

            server = Server(folder).start()
        except (NoServer, ImportError) as missing:
            if os.environ.get("RPQ_NEEDS_POSTGRES"):
                raise
            pytest.skip(f"no PostgreSQL: {missing}")
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
