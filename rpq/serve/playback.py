"""Tuples of files at a chosen speed: so many seconds of the stream a second, or as fast as they are taken."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Literal

import numpy as np
from msgspec import UNSET

from rpq.serve import models
from rpq.serve.models import FieldsError, converted
from rpq.stream.durations import NANOSECONDS

LONGEST_WAIT = 0.05
"""Seconds after which it is looked again whether something is due."""

State = Literal["playing", "paused", "ended"]


class Playback:
    """Tells how many tuples are due; used by the thread that reads them, and changed by others.

    `speed` is in seconds of the stream a second, or in its units where `time_unit` is None; None for full speed.

    >>> playback = Playback(speed=None, time_unit="s")
    >>> playback.change({"speed": 60})
    >>> playback.told()
    Playback(state='playing', speed=60.0, time=None)
    """

    def __init__(self, *, speed: float | None, time_unit: str | None) -> None:
        self.state: State = "playing"
        self.speed = speed
        self._units = 1.0 if time_unit is None else NANOSECONDS["s"] / NANOSECONDS[time_unit]
        self._changed = threading.Condition()
        self._is_stopped = False
        self._time: float | None = None  # of the stream, at the moment `_since`
        self._since = 0.0

    def told(self) -> models.Playback:
        """What responses tell; `time` is how far the stream is played."""
        with self._changed:
            now = self._now()
            return models.Playback(state=self.state, speed=self.speed, time=None if now is None else math.floor(now))

    def change(self, fields: Any) -> None:
        """Change state and speed as a request asks.  Raises `FieldsError`."""
        asked = converted(fields, models.ChangedPlayback)
        if not fields:
            raise FieldsError('expected "state" or "speed", or both')
        with self._changed:
            self._time, self._since = self._now(), time.monotonic()
            if asked.state is not UNSET and self.state != "ended":
                self.state = asked.state
            if asked.speed is not UNSET:
                self.speed = asked.speed
            self._changed.notify_all()

    def _now(self) -> float | None:
        """The time of the stream that is due; full speed has none."""
        if self._time is None or self.speed is None or self.state != "playing":
            return self._time
        return self._time + (time.monotonic() - self._since) * self.speed * self._units

    def end(self) -> None:
        """There is nothing more to play."""
        with self._changed:
            self._time, self._since = self._now(), time.monotonic()
            self.state = "ended"

    def stop(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def due(self, times: np.ndarray) -> int:
        """Wait until the first of some tuples is due; how many are, by the largest time up to each; 0 once it is stopped."""
        highest = np.maximum.accumulate(times)
        with self._changed:
            while not self._is_stopped:
                if self.state == "paused":
                    self._changed.wait()
                    continue
                if self.speed is None:
                    self._time, self._since = float(highest[-1]), time.monotonic()
                    return len(times)
                if self._time is None:
                    self._time, self._since = float(highest[0]), time.monotonic()
                now = self._now()
                assert now is not None
                count = int(np.searchsorted(highest, now, side="right"))
                if count:
                    return count
                left = (float(highest[0]) - now) / (self.speed * self._units)
                self._changed.wait(min(LONGEST_WAIT, max(left, 0.001)))
            return 0
