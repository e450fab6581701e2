"""How vertices are divided over shares and threads: by a hash of the name, which is the same in every process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Division(NamedTuple):
    """A share (number, of how many) of all vertices, divided over threads."""

    threads: int
    share: tuple[int, int]

    @property
    def is_whole(self) -> bool:
        """Whether there is one thread, and it has all vertices."""
        return self.threads * self.share[1] == 1

    def owned(self, hashes: np.ndarray) -> list[np.ndarray]:
        """For each thread, which vertices are its own (boolean), by the hashes of their names."""
        # First by share, then by thread: what a share answers must not depend on the number of threads.
        rest, share = np.divmod(hashes, np.uint64(self.share[1]))
        thread = rest % np.uint64(self.threads)
        return [(share == self.share[0]) & (thread == number) for number in range(self.threads)]
