"""The technology compatibility kit of openCypher: what is taken has its rows, and all else is refused by name."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.language.opencypher_tck import LIST, jar, listing, outcome, reason, scenarios
from tests.services.kafka_broker import NoBroker

pytest.importorskip("lark", reason="the extra match is not installed")
pytestmark = pytest.mark.ci


@pytest.fixture(scope="module", autouse=True)
def features() -> None:
    import os

    try:
        jar()
    except NoBroker as missing:
        if os.environ.get("CI") or os.environ.get("RPQ_NEEDS_KAFKA"):
            raise
        pytest.skip(str(missing))


def test_no_scenario_has_other_rows_and_what_is_refused_is_named() -> None:
    ends = Counter()
    for scenario in scenarios():
        how, why = outcome(scenario)
        ends["errors" if how == "passes" and scenario.error is not None else how] += 1
        assert how != "differs", (scenario.name, why)
        if how == "refused":
            reason(why)
    assert ends["passes"] > 200 and ends["errors"] > 260 and ends["other set-up"] < 15


def test_the_list_of_scenarios_is_up_to_date() -> None:
    assert LIST.read_text(encoding="utf-8") == listing()
