"""One normalised path for routing and for access: case, slashes, a missing or doubled ``/v1`` (D36, B2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from starlette.convertors import CONVERTOR_TYPES
from starlette.routing import PARAM_REGEX

from app.protocol.secret_texts import MASK

_MAX_SEGMENTS = 32
_REST = "path"
"""The kind of parameter that takes all that is left of a path."""

_WITHIN_A_PART = frozenset({"str", "int", "float", "uuid"})

_SECRETS = re.compile(r"(?is)(?<![^/])((?:pw|key|token)=)[^/]+|(?<![^/])(vcp_key(?:=|%3d)).+")
"""A key of WebSockets takes all that is left of a path: it may hold slashes."""
_CALLBACK_TOKEN = re.compile(r"(?i)(/plugin-callback/+)[^/]+(/+[^/]+/+[^/]+/*)$")


def segments_of(path: str) -> list[str]:
    """The parts between the slashes; empty ones do not count."""
    return [segment for segment in path.split("/") if segment]


def shown_path(path: str) -> str:
    """``path`` as it may stand in a log: keys and tokens in it are masked (B5)."""
    return _CALLBACK_TOKEN.sub(rf"\1{MASK}\2", _SECRETS.sub(rf"\1\2{MASK}", path))


def has_plain_parameters(path: str) -> bool:
    """True when each parameter stays within its part of the path, but for one that takes all that is left."""
    *others, last = segments_of(path) or [""]
    end = PARAM_REGEX.fullmatch(last)
    parts = others if end is not None and _kind(end) == _REST else [*others, last]
    return all(_kind(found) in _WITHIN_A_PART for part in parts for found in PARAM_REGEX.finditer(part))


def _kind(parameter: re.Match[str]) -> str:
    return (parameter[2] or "").lstrip(":") or "str"


class _Segment:
    """A part of a template that holds parameters: ``{name}`` or ``pw={key}``."""

    def __init__(self, text: str) -> None:
        self.prefix = text.partition("{")[0].lower()
        self._literals: list[str] = []
        pattern, end = "", 0
        for found in PARAM_REGEX.finditer(text):
            self._literals.append(text[end : found.start()])
            pattern += re.escape(self._literals[-1]) + f"({CONVERTOR_TYPES[_kind(found)].regex})"
            end = found.end()
        self._literals.append(text[end:])
        self._pattern = re.compile(pattern + re.escape(self._literals[-1]), re.IGNORECASE)

    def spelt(self, given: str) -> str | None:
        """``given`` with the fixed parts as the template writes them; None when it does not fit."""
        found = self._pattern.fullmatch(given)
        if found is None:
            return None
        values = (*found.groups(), "")
        return "".join(literal + value for literal, value in zip(self._literals, values, strict=True))


class Template:
    """A route's path. Fixed parts are compared without regard to case; what stands for a parameter keeps its case.

    A last ``{name:path}`` takes all that is left, with the slash at its end.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        texts = segments_of(path)
        self._takes_rest = False
        self._end = "/" if texts and path.endswith("/") else ""
        if texts and (last := PARAM_REGEX.fullmatch(texts[-1])) is not None and _kind(last) == _REST:
            self._takes_rest = True
            texts.pop()
        self.parts: tuple[str | _Segment, ...] = tuple(_Segment(text) if "{" in text else text for text in texts)

    @cached_property
    def fixed(self) -> bool:
        """True when there is nothing but fixed text in it."""
        return not self._takes_rest and all(isinstance(part, str) for part in self.parts)

    def spelt(self, given: Sequence[str], *, slash: bool = False) -> str | None:
        """The canonical path of ``given`` segments, None when they do not fit; ``slash``: one stands at the end."""
        own = self.parts
        if len(given) < len(own) or (len(given) > len(own) and not self._takes_rest):
            return None
        out = []
        for part, segment in zip(own, given, strict=False):
            if isinstance(part, str):
                if part.lower() != segment.lower():
                    return None
                out.append(part)
            else:
                spelt = part.spelt(segment)
                if spelt is None:
                    return None
                out.append(spelt)
        path = "/" + "/".join(out)
        if not self._takes_rest:
            return path + self._end
        rest = "/".join(given[len(own) :])
        return f"{'' if path == '/' else path}/{rest}{'/' if rest and slash else ''}"

    def overlaps(self, other: Template) -> bool:
        """True when a path may fit both; it may be true of some that no path fits."""
        for mine, others in zip(self.parts, other.parts, strict=False):
            if not _may_be_equal(mine, others):
                return False
        mine_left, others_left = len(self.parts) - len(other.parts), len(other.parts) - len(self.parts)
        return (mine_left <= 0 or other._takes_rest) and (others_left <= 0 or self._takes_rest)


def _may_be_equal(one: str | _Segment, other: str | _Segment) -> bool:
    if isinstance(one, str):
        if isinstance(other, str):
            return one.lower() == other.lower()
        return other.spelt(one) is not None
    if isinstance(other, str):
        return one.spelt(other) is not None
    return one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix)


class PathTable:
    """Knows the paths of all routes and finds the one a client meant."""

    def __init__(self, paths: Iterable[str]) -> None:
        templates = [Template(path) for path in paths]
        self._templates = templates
        self._fixed = frozenset(template.path for template in templates if template.fixed)

    def canonical(self, path: str) -> str:
        """The route's own spelling of ``path``, or ``path`` itself when no route is meant."""
        found = self.find(path)
        return path if found is None else found

    def find(self, path: str) -> str | None:
        """The route's own spelling of ``path``, None when no route is meant."""
        if path in self._fixed:
            return path
        segments = segments_of(path)
        if not segments or len(segments) > _MAX_SEGMENTS:
            return None
        bare = list(segments)
        while bare and bare[0].lower() == "v1":
            bare.pop(0)
        for candidate in (segments, ["v1", *bare]):
            for template in self._templates:
                found = template.spelt(candidate, slash=path.endswith("/"))
                if found is not None:
                    return found
        return None
