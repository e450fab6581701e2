"""From the rows of a pattern's parts to its solutions, where these differ.

A part without a common variable with others, or an atom without variables, changes on its own; the solutions are the
product of all parts. A meaning of a literal is one of several patterns whose solutions are added up. Under DISTINCT a
solution is there while any binding gives it. Of all this what is kept is the bag of each part's rows, and under DISTINCT
how often each solution comes: the product is formed where something is reported.

The rows of one event are all of one sign, since a tuple changes one relation of a pattern with one window, and a
boundary only takes: so what is reported is net.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

Row = tuple[int, ...]


@dataclass
class Product:
    """The parts of one meaning: the columns of each, and the bag of its rows."""

    columns: list[tuple[str, ...]]
    select: tuple[str, ...]
    differ: bool
    """Isomorphism: values of different parts must be different; all variables are columns of parts then."""
    bags: list[Counter[Row]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bags = [Counter() for _ in self.columns]
        place = {name: (part, at) for part, names in enumerate(self.columns) for at, name in enumerate(names)}
        self._places = [place[name] for name in self.select]

    def change(self, part: int, row: Row, sign: int) -> Iterator[tuple[Row, int]]:
        """Let a row of a part come or go; the solutions that do, and how often."""
        bag = self.bags[part]
        if sign > 0:
            bag[row] += 1
        elif bag[row] == 1:
            del bag[row]
        else:
            bag[row] -= 1
        return self._multiplied([{row: 1} if one == part else bag for one, bag in enumerate(self.bags)])

    def solutions(self) -> Iterator[tuple[Row, int]]:
        """All solutions, and how often each comes; one may be named several times."""
        return self._multiplied(self.bags)

    def _multiplied(self, bags: Sequence[dict[Row, int]]) -> Iterator[tuple[Row, int]]:
        if not all(bags):
            return
        for rows in itertools.product(*(bag.items() for bag in bags)):
            values = [row for row, _ in rows]
            if self.differ and len({*itertools.chain(*values)}) < sum(len({*row}) for row in values):
                continue
            yield tuple([values[part][at] for part, at in self._places]), prod(count for _, count in rows)


class Solutions:
    """The solutions of a pattern, from the rows of the parts of its meanings."""

    def __init__(self, *, distinct: bool) -> None:
        self.products: dict[int, Product] = {}
        self._held: Counter[Row] | None = Counter() if distinct else None

    @property
    def nbytes(self) -> int:
        """Bytes held, roughly."""
        bags = [bag for product in self.products.values() for bag in product.bags]
        return 150 * (sum(map(len, bags)) + len(self._held or ()))

    def put(self, meaning: int, product: Product) -> None:
        """Have a meaning, whose bags are filled already."""
        self.drop(meaning)
        self.products[meaning] = product
        for row, count in product.solutions() if self._held is not None else ():
            self._hold(row, count)

    def drop(self, meaning: int) -> None:
        """Have it no more."""
        product = self.products.pop(meaning, None)
        for row, count in product.solutions() if product is not None and self._held is not None else ():
            self._hold(row, -count)

    def change(self, meaning: int, part: int, rows: Iterable[Row], sign: int) -> Iterator[tuple[Row, int]]:
        """Let rows of a part come or go; what comes to the answer or goes from it, and how often."""
        product = self.products[meaning]
        for one in rows:
            for row, count in product.change(part, one, sign):
                if self._held is None:
                    yield row, count
                elif self._hold(row, sign * count):
                    yield row, 1

    def answers(self) -> Iterator[tuple[Row, int]]:
        """The answer, a bag: a row may be named several times."""
        if self._held is not None:
            yield from ((row, 1) for row in self._held)
        else:
            for product in self.products.values():
                yield from product.solutions()

    def _hold(self, row: Row, count: int) -> bool:
        """Count a solution under DISTINCT; whether it is in the answer now and was not before, or the other way."""
        assert self._held is not None
        before = self._held[row]
        if before + count:
            self._held[row] = before + count
        else:
            del self._held[row]
        return (before == 0) != (before + count == 0)
