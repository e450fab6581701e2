"""Kernels that other kernels call: what is compiled of them for whom, and that every way of calling gives the same."""

from __future__ import annotations

import numpy as np
import pytest
from numba import config

from rpq.compiled.callees import CalleeLibrary, code_of
from rpq.compiled.kernel_cache import njit

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


def kernels():
    """A kernel that fails for odd numbers, of which a message is made, and one that calls it twice."""

    @njit(cache=True)
    def halved(number):
        if number % 2:
            raise ValueError("an odd number", number)
        return number // 2

    @njit(cache=True)
    def quartered(number, twice=True):
        return halved(halved(number)) if twice else halved(number)

    return halved, quartered


def test_python_may_call_it_afterwards_and_before():
    halved, quartered = kernels()
    assert quartered(12) == 3 and halved(12) == 6 and quartered(np.int32(12)) == 3
    other, caller = kernels()
    assert other(12) == 6 and caller(12, False) == 6
    # The code that Python calls is that which the caller contains.
    (overload,) = other.overloads.values()
    assert not isinstance(code_of(overload), CalleeLibrary)
    assert other.get_overload(overload.signature.args) is overload.entry_point


def test_its_errors_come_through_the_callers():
    halved, quartered = kernels()
    for number in (6, 7):
        with pytest.raises(ValueError, match=f"'an odd number', {number // (1 if number == 7 else 2)}"):
            quartered(number)
    with pytest.raises(ValueError, match="'an odd number', 3"):
        halved(3)


def test_a_kernel_may_call_itself():
    @njit(cache=True)
    def factorial(number):
        return 1 if number < 2 else number * factorial(number - 1)

    @njit(cache=True)
    def doubled(number):
        return 2 * factorial(number)

    assert doubled(5) == 240 and factorial(5) == 120


def test_two_kernels_that_call_each_other_are_refused():
    @njit(cache=True)
    def is_even(number):
        return True if number == 0 else is_odd(number - 1)

    @njit(cache=True)
    def is_odd(number):
        return False if number == 0 else is_even(number - 1)

    with pytest.raises(NotImplementedError, match="call each other: make one kernel of the two"):
        is_even(6)
