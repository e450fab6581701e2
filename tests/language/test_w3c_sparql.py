"""The tests of the W3C: the oracle of SPARQL passes them, and the language reads them."""

from __future__ import annotations

import pytest

from rpq.errors import SparqlError
from rpq.language.sparql.syntax.reading import read
from tests.language.w3c_sparql import LIST, Case, cases, fault, kept_cases, left_out, listed, listing
from tests.reference_sparql_values import CONTRACT, STANDARD

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("folder", listed())
def test_the_oracle_passes_what_is_not_left_out(folder):
    """Under the contract's rules of values and under the standard's: both must give what the suite expects."""
    faults = {}
    for case in kept_cases(folder):
        for rules in (CONTRACT, STANDARD):
            if found := fault(case, rules):
                faults[case.name] = found
    assert not faults


@pytest.mark.parametrize("folder", listed())
def test_what_is_not_left_out_is_read_and_what_is_no_query_is_not(folder):
    faults = {}
    for case in kept_cases(folder):
        if case.kind == "evaluation":  # the engine evaluates it
            continue
        try:
            read(case.text)
        except SparqlError as error:
            if case.kind != "negative":
                faults[case.name] = str(error)
        else:
            if case.kind == "negative":
                faults[case.name] = "was read"
    assert not faults


@pytest.mark.ci
def test_the_list_of_tests_is_up_to_date():
    assert LIST.read_text(encoding="utf-8") == listing()


def test_there_are_enough_tests():
    kept = [case for case in cases() if left_out(case) is None]
    assert len(kept) > 400
    assert all(isinstance(case, Case) for case in kept)
