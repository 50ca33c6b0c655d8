"""One list of models out of several (spec 1.5, P32)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.errors import ModelNotServedError
from app.extend import UpstreamTarget
from app.upstream.model_list import merged

A = UpstreamTarget("http://a", "", name="a")
B = UpstreamTarget("http://b", "", name="b")


def anybody(model: str) -> Sequence[UpstreamTarget]:
    return (A, B)


def data(*models: Any) -> bytes:
    return json.dumps({"object": "list", "data": models}).encode()


def test_each_id_stands_once_in_order_as_its_first_upstream_wrote_it() -> None:
    first = {"id": "m1", "owned_by": "甲", "extra": [1]}
    lists = [(A, data(first, {"id": "m2"}, {"id": "m1", "again": 1})), (B, data({"id": "m2", "b": 1}, {"id": "m3"}))]
    assert merged(lists, anybody) == [first, {"id": "m2"}, {"id": "m3"}]


def test_a_model_is_listed_only_by_an_upstream_that_would_be_asked_for_it() -> None:
    def resolve(model: str) -> Sequence[UpstreamTarget]:
        if model == "nobody":
            raise ModelNotServedError("没有")
        return (B,) if model.startswith("b-") else (A,)

    lists = [(A, data({"id": "b-1"}, {"id": "a-1"}, {"id": "nobody"})), (B, data({"id": "b-1", "b": 1}, {"id": "a-2"}))]
    assert merged(lists, resolve) == [{"id": "a-1"}, {"id": "b-1", "b": 1}]


def test_every_shape_of_a_list_is_read_and_what_is_none_is_passed_over() -> None:
    lists = [
        (A, b'[{"id": "bare"}]'),
        (A, b'{"models": [{"name": "named", "size": 1}]}'),
        (A, b'{"data": {"id": "x"}, "models": null}'),
        (A, data("text", None, 1, [], {"id": 5}, {"id": ""}, {"object": "model"}, {"id": "good"})),
        (B, b"<html>not here</html>"),
        (B, b""),
        (B, b"{cut"),
        (B, b"\xff\xfe\x00"),
        (B, b"[" * 100_000),
    ]
    assert merged(lists, anybody) == [
        {"id": "bare"},
        {"id": "named", "object": "model", "name": "named", "size": 1},
        {"id": "good"},
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["data", "models", "id", "name"]), inner, max_size=3)
        ),
    )
)
def test_no_answer_breaks_the_list(value: Any) -> None:
    found = merged([(A, json.dumps(value).encode()), (B, data({"id": "good"}))], anybody)
    assert any(model["id"] == "good" for model in found)
    assert len({model["id"] for model in found}) == len(found)
