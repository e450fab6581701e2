"""Fixtures and Hypothesis profiles.

RPQ_HYPOTHESIS=moderate, with which CI runs once a week, draws more examples than the default, RPQ_HYPOTHESIS=long a hundred
times as many as that, and RPQ_HYPOTHESIS=fixed fewer, the same ones each time.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

    from tests.commands import Caller
    from tests.services.kafka_topics import Topics
    from tests.services.page_browser import Windows
    from tests.services.postgres_server import Server

# Kernels compile at their first call, so no example has a deadline.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("few", max_examples=8, **_PATIENT)
# What decides whether a commit is released must not depend on chance.  More of the same examples would find nothing new.
settings.register_profile("fixed", max_examples=5, derandomize=True, **_PATIENT)
settings.register_profile("moderate", max_examples=20, **_PATIENT)
settings.register_profile("long", max_examples=2000, **_PATIENT)
settings.register_profile("unshrunk", max_examples=300, phases=[Phase.explicit, Phase.reuse, Phase.generate], **_PATIENT)
settings.load_profile(os.environ.get("RPQ_HYPOTHESIS", "few"))


# A JVM of tests lives too briefly to gain from what its second compiler takes: a third of its processor time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


HEAVY = {"checkout", "chromium", "kafka", "own_kafka", "postgres", "session", "wheel"}
"""Fixtures that start a broker, a browser or a JVM, or build something: the tests that use them are left to CI."""

GROUPS = {"session": "spark", "kafka": "kafka", "postgres": "postgres", "wheel": "wheel", "checkout": "wheel"}
"""Fixtures that one process makes for all tests that use them under `--dist loadgroup`, and the names of these groups."""

OWN_SESSION = {"test_spark_data_anywhere", "test_spark_end_to_end"}
"""Files whose tests are a group of their own, `spark-streams`: one session for all would be the last process to end."""

LONGEST = (
    "spark",
    "spark-streams",
    "kafka",
    "wheel",
    "test_bench_experiments",
    "test_spark_connect",
    "test_spark_operation",
    "test_bench_spark",
    "test_kafka_kills",
    "test_bench_cliffs",
    "test_serve_journal",
)
"""The groups that take longest, which begin first under `--no-loadscope-reorder`, so that no core is idle at the end."""


def pytest_configure(config: pytest.Config) -> None:
    """Refuse `--dist loadgroup` where groups would be lost: each process would start a broker and a JVM of its own.

    Doctests bear no marks, so they are not collected, by each process, where only marked tests are run.
    """
    if config.getoption("markexpr", "").startswith(("ci", "long")):
        config.option.doctestmodules = False
    if config.getoption("dist", "no") == "loadgroup" and not hasattr(pytest.Item, "_nodeid"):
        raise pytest.UsageError("pytest-xdist cannot group the tests of this pytest; expected pytest<9.2")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without collections of garbage in between, and exempt what stays until the end from later ones."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail if a module of tests cannot be imported.

    Doctests skip modules that lack an extra, and leave them half imported: their tests would be missing without an error.
    """
    report = yield
    is_of_tests = Path(__file__).parent in collector.path.parents
    if report.skipped and is_of_tests and "unable to import module" in str(report.longrepr):
        report.outcome, report.longrepr = "failed", f"{collector.path} cannot be imported"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use one of the heavy fixtures with `ci`, before marks are selected by, and group tests.

    The other tests of a file are a group too.
    """
    groups: dict[pytest.Item, str] = {}
    for item in items:
        used = getattr(item, "fixturenames", ())
        if HEAVY.intersection(used):
            item.add_marker("ci")
        group = next((group for name, group in GROUPS.items() if name in used), item.path.stem)
        if group == "spark" and item.path.stem in OWN_SESSION:
            group = "spark-streams"
        item.add_marker(pytest.mark.xdist_group(group))
        groups[item] = group
    if config.getoption("loadgroup", False):
        items.sort(key=lambda item: LONGEST.index(groups[item]) if groups[item] in LONGEST else len(LONGEST))


LOGGERS = ("asyncio", "rpq", "rpq.kafka", "rpq.run", "rpq.serve", "uvicorn", "uvicorn.error")
"""Loggers whose records tests look for."""


@pytest.fixture(autouse=True)
def loggers_stay_as_they_are() -> Iterator[None]:
    """Fail a test that leaves a logger mute: a later test of the same process, in any file, would miss its records."""
    yield
    loggers = [logging.getLogger(name) for name in LOGGERS]
    mute = [one for one in loggers if one.disabled or not one.propagate or not one.isEnabledFor(logging.WARNING)]
    for one in mute:
        one.disabled, one.propagate = False, True
        one.setLevel(logging.NOTSET)
    assert not mute, f"the test leaves loggers that pass no warnings on: {mute}"


@pytest.fixture(autouse=True)
def only_the_first_run_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the warm-up of later runs of the command in this process, which takes most of a second."""
    if (run_parts := sys.modules.get("rpq.cli.run_parts")) is not None:
        monkeypatch.setattr(run_parts, "compile_kernels", lambda *queries, **options: 0.0)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, in which something may be built."""
    from tests.services.environments import copied_checkout

    return copied_checkout(tmp_path_factory.mktemp("source") / "checkout")


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; needs a package registry, for setuptools."""
    from tests.services.environments import built

    return built(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def rpq(capfdbinary: pytest.CaptureFixture[bytes]) -> Caller:
    """Call the command `rpq` in this process; returns (exit status, standard output, standard error)."""
    from tests.commands import Caller

    return Caller(capfdbinary)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """Topics of a real broker, which lives as long as the tests of this process."""
    from tests.services.kafka_broker import Broker, required_or_skipped

    with required_or_skipped():
        from tests.services.kafka_topics import Topics

        broker = Broker(tmp_path_factory.mktemp("kafka"), with_tls=True).start()
    with closing(broker), closing(Topics(broker)) as topics:
        yield topics


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Topics]:
    """Topics of a broker of the test's own, which it may kill."""
    from tests.services.kafka_broker import Broker, required_or_skipped

    with required_or_skipped():
        from tests.services.kafka_topics import Topics

        broker = Broker(tmp_path / "broker").start()
    with closing(broker):
        yield Topics(broker)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, which lives as long as the tests of this process; each test creates tables of its own."""
    from tests.services.postgres_server import started_or_skipped

    with started_or_skipped() as server:
        yield server


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """A session of Spark on this machine, which lives as long as the tests of this process.

    Without Java its tests skip, but fail where `RPQ_NEEDS_KAFKA` is set: brokers need Java too.
    """
    from rpq import spark
    from rpq.spark.errors import PipelineError

    try:
        made = spark.open_session(master="local[2]", partitions=2)
    except PipelineError as missing:
        if os.environ.get("RPQ_NEEDS_KAFKA"):
            raise
        pytest.skip(str(missing))
    yield made
    made.stop()


@pytest.fixture
def rpq_on_spark(session: SparkSession, rpq: Caller, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """Call `rpq spark …` in this process and in the session of the tests, whatever its `--master`: a JVM less a command."""
    monkeypatch.setattr("rpq.spark.jvm.session.open_session", lambda **_: session)
    monkeypatch.setattr(session, "stop", lambda: None)
    return rpq


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless browser for the tests of one file: while it is there, this thread can run no event loop of its own."""
    from tests.services.page_browser import chromium_running

    with chromium_running() as browser:
        yield browser


@pytest.fixture
def windows(chromium: Browser) -> Iterator[Windows]:
    """Opens pages; a test fails in whose pages something goes wrong."""
    from tests.services.page_browser import Windows

    with closing(Windows(chromium)) as opened:
        yield opened
