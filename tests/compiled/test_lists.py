"""Lists over one pool, whose regions move and are packed as they grow."""

from __future__ import annotations

import pytest

from rpq.compiled.arrays import lists as module
from rpq.compiled.arrays.lists import append, lists_with_room, new_lists, reserve, truncate


def content(lists: module.Lists) -> list[list[int]]:
    pairs = zip(lists.start.tolist(), lists.length.tolist(), strict=True)
    return [lists.entries[start : start + length].tolist() for start, length in pairs]


@pytest.mark.parametrize("is_plain", [False, True])
def test_lists_of_hundreds_of_entries_are_packed(monkeypatch: pytest.MonkeyPatch, is_plain: bool) -> None:
    """In plain Python the size of a region was computed in eight bits."""
    if is_plain:
        repack = module._repack
        monkeypatch.setattr(module, "_repack", getattr(repack, "py_func", repack))
    lists = new_lists(3, 1)
    expected: list[list[int]] = [[], [], []]
    for number in range(900):
        place = number % 3
        while not reserve(lists, place, 1):
            lists = lists_with_room(lists, 2 * len(expected[place]) + 2)
        append(lists, place, number)
        expected[place].append(number)
        if number in (300, 700):
            truncate(lists, 1, 0)
            expected[1] = []
        assert content(lists) == expected
