"""How much Hypothesis tries: RPQ_HYPOTHESIS=long tries forty times as much as the default."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from tests.commands import Caller

# Kernels compile at their first call, so no example has a deadline.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("moderate", max_examples=50, **_PATIENT)
settings.register_profile("long", max_examples=2000, **_PATIENT)
settings.register_profile("unshrunk", max_examples=300, phases=[Phase.explicit, Phase.reuse, Phase.generate], **_PATIENT)
settings.load_profile(os.environ.get("RPQ_HYPOTHESIS", "moderate"))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, in which something may be built."""
    from tests.environments import copied_checkout

    return copied_checkout(tmp_path_factory.mktemp("source") / "checkout")


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; needs a package registry, for setuptools."""
    from tests.environments import built

    return built(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def rpq(capfdbinary: pytest.CaptureFixture[bytes]) -> Caller:
    """Call the command `rpq` in this process; returns (exit status, standard output, standard error)."""
    from tests.commands import Caller

    return Caller(capfdbinary)
