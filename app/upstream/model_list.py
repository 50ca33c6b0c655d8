"""One list of models out of those of several upstreams (spec 1.5, P32). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from app.errors import VcpError
from app.extend import Json, UpstreamTarget


def merged(
    lists: Sequence[tuple[UpstreamTarget, bytes]], resolve: Callable[[str], Sequence[UpstreamTarget]]
) -> list[Mapping[str, Json]]:
    """The models of all lists in order, as they were written.

    Each id once, and only where it was listed by an upstream that ``resolve`` would ask for it: a list is there to
    choose from. Entries without an id, and lists that are none, are passed over.
    """
    found: dict[str, Mapping[str, Json]] = {}
    for target, body in lists:
        for name, model in _models(body):
            if name not in found and _asked(target, name, resolve):
                found[name] = model
    return list(found.values())


def model_names(body: bytes) -> list[str]:
    """The ids of one list in its order, each once; empty when the body is no list."""
    return list(dict.fromkeys(name for name, _ in _models(body)))


def _asked(target: UpstreamTarget, model: str, resolve: Callable[[str], Sequence[UpstreamTarget]]) -> bool:
    try:
        return target in resolve(model)
    except VcpError:  # nobody serves it
        return False


def _models(body: bytes) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The models of one list, in any of the shapes that are in use: an object with ``data`` or ``models``, or bare."""
    try:
        value = orjson.loads(body)
    except ValueError:
        return
    if isinstance(value, dict):
        value = value.get("data") if isinstance(value.get("data"), list) else value.get("models")
    for model in value if isinstance(value, list) else ():
        if not isinstance(model, dict):
            continue
        name = model.get("id") or model.get("name")
        if isinstance(name, str) and name:
            yield name, model if "id" in model else {"id": name, "object": "model", **model}
