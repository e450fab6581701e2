"""Classes that other packages provide for URLs, by the scheme: how entry points are found, checked and loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rpq.errors import InputError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def scheme_of(path: object) -> str | None:
    """Return the scheme of a URL in lower case; None for anything else.

    >>> scheme_of("MQTT://broker/topic"), scheme_of("edges.csv")
    ('mqtt', None)
    """
    found = _URL.match(path) if isinstance(path, str) else None
    return None if found is None else found[1].lower()


def without_login(url: str) -> str:
    """Return a URL without the user and the password in it, for messages and checkpoints.

    >>> without_login("mqtt://ann:secret@broker/topic")
    'mqtt://broker/topic'
    """
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]+://)[^/?#]*@", r"\1", url)


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


@dataclass(frozen=True, kw_only=True)
class Providers:
    """The classes of entry points in a `group`, whose names are the schemes of URLs.

    `noun` names one of them in messages, and `like` the protocol. Each has the `method`, and `attributes` with one of the
    values given; the first of these is the default, unless it is an ellipsis.
    """

    group: str
    noun: str
    like: str
    method: str
    attributes: Mapping[str, tuple[Any, ...]]

    def has(self, path: object) -> bool:
        """Return whether a path is a URL for which a class is installed."""
        scheme = scheme_of(path)
        return scheme is not None and bool(self._entry_points(scheme))

    def load(self, scheme: str) -> Any:
        """Return the class of a scheme, importing its package.  Raises `InputError` with the cause if that is impossible."""
        points = self._entry_points(scheme)
        if len(points) != 1:
            owners = " and ".join(f"{_package(point)} ({point.value})" for point in points)
            raise InputError(f"several packages have a {self.noun} for {scheme}://: {owners}; uninstall all but one")
        (point,) = points
        where = f"the {self.noun} for {scheme}:// of {_package(point)} ({point.value})"
        try:
            found = point.load()
        except Exception as error:  # whatever the package raises when it is imported
            raise InputError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        if not callable(getattr(found, self.method, None)):
            raise InputError(f"{where} is not a {self.noun}: expected a class with a method {self.method}, like {self.like}")
        for name, (default, *others) in self.attributes.items():
            allowed = others if default is ... else [default, *others]
            if (value := getattr(found, name, None if default is ... else default)) not in allowed:
                raise InputError(f"{where}: {name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
        return found

    def installed(self) -> list[tuple[str, str]]:
        """Return the scheme of each installed class, and its package; nothing is imported."""
        return sorted({(f"{point.name}://", _package(point)) for point in entry_points(group=self.group)})

    def _entry_points(self, scheme: str) -> list[EntryPoint]:
        """Return the entry points of a scheme; an installation that the path of Python names twice counts once."""
        found = {(point.value, _package(point)): point for point in entry_points(group=self.group, name=scheme)}
        return list(found.values())
