"""The oracle of SPARQL on the tests of the W3C, where their files are (see `tests.w3c_sparql`)."""

from __future__ import annotations

import pytest

from tests.reference_sparql_values import CONTRACT, STANDARD
from tests.w3c_sparql import LIST, ROOT, Case, cases, fault, left_out, listing

pytestmark = [
    pytest.mark.skipif(not ROOT.is_dir(), reason="RPQ_W3C_SPARQL names no folder with the suites"),
    pytest.mark.filterwarnings("ignore"),
]
FOLDERS = sorted({case.name.partition("/")[0] for case in cases()})


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_oracle_passes_what_is_not_left_out(folder):
    """Under the contract's rules of values and under the standard's: both must give what the suite expects."""
    faults = {}
    for case in cases():
        if case.name.partition("/")[0] == folder and left_out(case) is None:
            for rules in (CONTRACT, STANDARD):
                if found := fault(case, rules):
                    faults[case.name] = found
    assert not faults


def test_the_list_of_tests_is_up_to_date():
    assert LIST.read_text(encoding="utf-8") == listing()


def test_there_are_enough_tests():
    kept = [case for case in cases() if left_out(case) is None]
    assert len(kept) > 400
    assert all(isinstance(case, Case) for case in kept)
