"""One path for routing and access: case, slashes, the missing or doubled ``/v1`` (D36, B2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.web.paths import PathTable, Template

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


FILES = PathTable(["/v1/models", "/pw={key}/images/{path:path}", "/v1/models/{rest:path}", "/Panel/", "/n/{x:int}"])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/PW=Ab/IMAGES/Cats/A.png", "/pw=Ab/images/Cats/A.png"),
        ("/pw=Ab/images/Cats/", "/pw=Ab/images/Cats/"),
        ("/pw=Ab//images//Cats//", "/pw=Ab/images/Cats/"),
        ("/pw=Ab/images", "/pw=Ab/images/"),
        ("/pw=Pw=/images/x", "/pw=Pw=/images/x"),
        ("/pw=/Images/x", "/pw=/Images/x"),
        ("/x/Images/y", "/x/Images/y"),
        ("/V1/Models/Org/Name", "/v1/models/Org/Name"),
        ("/models/Org", "/v1/models/Org"),
        ("/V1/Models/", "/v1/models"),
        ("/panel", "/Panel/"),
        ("/N/12", "/n/12"),
        ("/N/a", "/N/a"),
    ],
)
def test_parameters_keep_their_case_and_may_take_the_rest(path: str, expected: str) -> None:
    assert FILES.canonical(path) == expected
    assert FILES.canonical(expected) == expected


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("/a/b", "/A/B", True),
        ("/a/b", "/a/c", False),
        ("/a/{x}", "/a/b", True),
        ("/a/{x}", "/a/b/c", False),
        ("/a/{x:path}", "/a/b/c", True),
        ("/a/{x:path}", "/a", True),
        ("/{x:path}", "/a/b", True),
        ("/a/{x:path}", "/b/{y:path}", False),
        ("/pw={k}/images/{p:path}", "/pw={k}/files/{p:path}", False),
        ("/pw={k}/images/{p:path}", "/{x}/images/y", True),
        ("/pw={k}/images/{p:path}", "/key={k}/images/y", False),
        ("/pw={k}/x", "/password/x", False),
        ("/n/{x:int}", "/n/a", False),
        ("/n/{x:int}", "/n/{y}", True),
    ],
)
def test_whether_two_templates_may_fit_one_path(one: str, other: str, together: bool) -> None:
    assert Template(one).overlaps(Template(other)) is together
    assert Template(other).overlaps(Template(one)) is together
