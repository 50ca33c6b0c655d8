"""One path for routing and access: case, slashes, the missing or doubled ``/v1`` (D36, B2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.web.paths import PathTable

ROUTES = ["/v1/chat/completions", "/v1/models", "/healthz", "/plugin-callback/{plugin}/{task}", "/v1/human/tool"]
TABLE = PathTable(ROUTES)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/models", "/v1/models"),
        ("/V1/Models/", "/v1/models"),
        ("//v1///models//", "/v1/models"),
        ("/models", "/v1/models"),
        ("/MODELS/", "/v1/models"),
        ("/v1/v1/models", "/v1/models"),
        ("/V1/v1/V1/Chat/COMPLETIONS", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/human/tool", "/v1/human/tool"),
        ("/HealthZ", "/healthz"),
        ("/Plugin-Callback/Wan2.1VideoGen/aBc-1", "/plugin-callback/Wan2.1VideoGen/aBc-1"),
        ("/v1/healthz", "/v1/healthz"),
        ("/v1", "/v1"),
        ("/v1/v1", "/v1/v1"),
        ("/", "/"),
        ("", ""),
        ("/v1/models/x", "/v1/models/x"),
        ("/v1/../models", "/v1/../models"),
        ("/v1/./models", "/v1/./models"),
        ("/v1/models\x00", "/v1/models\x00"),
        ("/v1/mod els", "/v1/mod els"),
        ("/plugin-callback/a/b/c", "/plugin-callback/a/b/c"),
        ("/plugin-callback//b", "/plugin-callback//b"),
        ("/v1" * 40 + "/models", "/v1" * 40 + "/models"),
    ],
)
def test_a_path_becomes_that_of_its_route_or_stays(path: str, expected: str) -> None:
    assert TABLE.canonical(path) == expected


@given(st.text(alphabet="v1/VmodelsHeathz.%{}", max_size=40))
def test_a_path_that_was_made_one_stays_one(path: str) -> None:
    once = TABLE.canonical(path)
    assert TABLE.canonical(once) == once
    assert once == path or once in ROUTES or once.startswith("/plugin-callback/")
