"""One normalised path for routing and for access: case, slashes, a missing or doubled ``/v1`` (D36, B2)."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_SEGMENTS = 32


class PathTable:
    """Knows the paths of all routes and finds the one a client meant.

    Only the fixed parts of a path are compared without regard to case; what stands for ``{parameter}`` keeps its case.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._templates = [tuple(path.strip("/").split("/")) for path in paths]

    def canonical(self, path: str) -> str:
        """The route's own spelling of ``path``, or ``path`` itself when no route is meant."""
        segments = [segment for segment in path.split("/") if segment]
        if not segments or len(segments) > _MAX_SEGMENTS:
            return path
        bare = list(segments)
        while bare and bare[0].lower() == "v1":
            bare.pop(0)
        for candidate in (segments, ["v1", *bare]):
            for template in self._templates:
                found = _matched(template, candidate)
                if found is not None:
                    return found
        return path


def _matched(template: tuple[str, ...], segments: list[str]) -> str | None:
    if len(template) != len(segments):
        return None
    out = []
    for expected, given in zip(template, segments, strict=True):
        if expected.startswith("{"):
            out.append(given)
        elif expected.lower() == given.lower():
            out.append(expected)
        else:
            return None
    return "/" + "/".join(out)
