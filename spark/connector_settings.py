"""Settings of clients: what `--kafka-config` says in librdkafka's names, in those of Java, which Spark's connector takes."""

from __future__ import annotations

from collections.abc import Mapping

from rpq.kafka.client import ClientSettings, is_of_producers
from rpq.spark.errors import PipelineError

REDACTED = "(?i)secret|password|token|access[.]?key|jaas"
"""Names of options whose values Spark shows nowhere."""

_OTHER_NAMES = {"sasl.mechanisms": "sasl.mechanism", "ssl.ca.location": "ssl.truststore.location"}
_TAKEN = ("sasl.username", "sasl.password", "auto.offset.reset")
_IN_ONE_FILE = ("ssl.certificate.location", "ssl.key.location", "ssl.certificate.pem", "ssl.key.pem")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_FROM_END = ("latest", "largest", "end")


def connector_options(brokers: str, given: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's connector; names that are not known go through as they are, so that Java's are taken too.

    Raises `PipelineError` for what Java's clients have no word for, and `KafkaError` for what is not the user's to say.

    >>> connector_options("localhost:9092", {"ssl.ca.location": "ca.pem"})["kafka.ssl.truststore.type"]
    'PEM'
    """
    ClientSettings(brokers, given)  # refuses what is not to be set
    options = {
        "kafka.bootstrap.servers": brokers,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "latest" if given.get("auto.offset.reset") in _FROM_END else "earliest",
    }
    for name, value in given.items():
        if name in _IN_ONE_FILE:
            raise PipelineError(
                f"--kafka-config: {name}: Java's clients have certificate and key in one file; name it with "
                "ssl.keystore.type=PEM and ssl.keystore.location"
            )
        if name not in _TAKEN and not is_of_producers(name):
            options[f"kafka.{_OTHER_NAMES.get(name, name)}"] = value
    if "ssl.ca.location" in given:
        options["kafka.ssl.truststore.type"] = "PEM"
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    if "sasl.username" in given:
        options["kafka.sasl.jaas.config"] = _login(given)
    return options


def _login(given: Mapping[str, str]) -> str:
    """What signs in, in the words of Java's clients."""
    mechanism = given.get("sasl.mechanisms") or given.get("sasl.mechanism") or "PLAIN"
    if mechanism not in _MODULES:
        raise PipelineError(
            f"--kafka-config: sasl.username with the mechanism {mechanism}: expected one of {', '.join(_MODULES)}, or "
            "sasl.jaas.config in the words of Java's clients"
        )
    name, password = (_quoted(given.get(key, "")) for key in ("sasl.username", "sasl.password"))
    return f"{_MODULES[mechanism]} required username={name} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
