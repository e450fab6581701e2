"""How much Hypothesis tries: RPQ_HYPOTHESIS=long tries forty times as much as the default."""

import os

from hypothesis import HealthCheck, Phase, settings

# Kernels compile at their first call, so no example has a deadline.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("moderate", max_examples=50, **_PATIENT)
settings.register_profile("long", max_examples=2000, **_PATIENT)
settings.register_profile("unshrunk", max_examples=300, phases=[Phase.explicit, Phase.reuse, Phase.generate], **_PATIENT)
settings.load_profile(os.environ.get("RPQ_HYPOTHESIS", "moderate"))
