"""URIs of topics: `kafka://broker:9092,other:9092/topic,topic`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rpq.errors import InputError

SCHEME = "kafka://"
PORT = 9092

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")


@dataclass(frozen=True)
class TopicNames:
    """Topics of one cluster: `brokers` (host:port, separated by commas) and the names of the topics."""

    brokers: str
    topics: tuple[str, ...]

    @property
    def identity(self) -> str:
        """A name of the topics that stays the same when brokers move.

        >>> topics_in("kafka://one:9092/edges").identity
        'kafka:edges'
        """
        return f"kafka:{','.join(self.topics)}"


def is_topic(text: str | None) -> bool:
    """Return whether a text is a URI of topics.

    >>> is_topic("kafka://localhost/edges"), is_topic("edges.csv"), is_topic(None)
    (True, False, False)
    """
    return text is not None and text.lower().startswith(SCHEME)


def topics_in(uri: str) -> TopicNames:
    """Parse a URI of topics.  Raises `InputError`, also for a URI with a login.

    >>> topics_in("kafka://localhost/a,b")
    TopicNames(brokers='localhost:9092', topics=('a', 'b'))
    """
    brokers, slash, topics = uri[len(SCHEME) :].partition("/")
    if "@" in brokers:
        host = brokers.rpartition("@")[2]
        raise InputError(
            f"{SCHEME}…@{host}/{topics}: a URI has no login; sasl.username and sasl.password go into the file of "
            "--kafka-config"
        )
    if not brokers or not slash or not topics:
        raise InputError(f"{uri}: is not a topic; expected kafka://BROKER[:PORT]/TOPIC, several topics separated by commas")
    hosts = [_add_port(uri, host.strip()) for host in brokers.split(",")]
    names = [name.strip() for name in topics.split(",")]
    for name in names:
        if not _TOPIC.fullmatch(name) or name in (".", ".."):
            raise InputError(f"{uri}: {name!r} is not the name of a topic: expected letters, digits, '.', '_' and '-'")
        if names.count(name) > 1:
            raise InputError(f"{uri}: the topic {name} is given twice")
    return TopicNames(",".join(hosts), tuple(names))


def _add_port(uri: str, host: str) -> str:
    if not _BROKER.fullmatch(host):
        raise InputError(f"{uri}: {host!r} is not a broker; expected HOST or HOST:PORT")
    return host if re.search(r":[0-9]+$", host.rpartition("]")[2] or host) else f"{host}:{PORT}"


def one_cluster(uris: Iterable[str]) -> list[TopicNames]:
    """Parse URIs of one cluster.  Raises `InputError` for different brokers: a transaction belongs to one cluster."""
    found = [topics_in(uri) for uri in uris]
    for one in found[1:]:
        if one.brokers != found[0].brokers:
            raise InputError(
                f"topics of {found[0].brokers} and of {one.brokers}: a transaction cannot span clusters, so all topics of a "
                "run must be on one; name the same brokers in each URI"
            )
    return found


def checked_topic(text: str) -> str:
    """Return the text if it is a URI of topics.  Raises `InputError`."""
    if not is_topic(text):
        raise InputError(f"{text}: is not a topic; expected kafka://BROKER[:PORT]/TOPIC")
    topics_in(text)
    return text


def one_topic(text: str) -> str:
    """Return the topic that a URI names.  Raises `InputError` if it names several."""
    names = topics_in(text).topics
    if len(names) > 1:
        raise InputError(f"{text}: names {len(names)} topics; expected one for the rows")
    return names[0]
