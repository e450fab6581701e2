"""The tests of the W3C: what is no query is refused, and the rest is read; the engine evaluates it elsewhere."""

from __future__ import annotations

import pytest

from rpq.errors import SparqlError
from rpq.language.sparql.syntax.reading import read
from tests.language.w3c_sparql import LIST, kept_cases, listed, listing

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("folder", listed())
def test_what_is_not_left_out_is_read_and_what_is_no_query_is_not(folder):
    faults = {}
    for case in kept_cases(folder, evaluated=False):
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
