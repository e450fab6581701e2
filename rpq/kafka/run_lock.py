"""One run at a time for a checkpoint."""

from __future__ import annotations

import os

from rpq.kafka.client_settings import KafkaError


class RunLock:
    """Holds `FILE.lock`, where the system has locks of files; raises `KafkaError` where another run does."""

    def __init__(self, checkpoint: str) -> None:
        self._file = None
        try:
            import fcntl
        except ImportError:  # the broker fences the older one
            return
        self._file = os.open(f"{os.path.realpath(checkpoint)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise KafkaError(f"{checkpoint}: another run goes on from this checkpoint; end that one first") from None

    def release(self) -> None:
        """Let another run have it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
