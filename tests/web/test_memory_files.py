"""Notebook tags, semantic groups, thinking chains, clusters, state of the index for administrators (vcp-core 8.2)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.config import durable
from tests.server import Running, run, running

ADMIN = ("AdminUsername=admin", "AdminPassword=secret-password")
AUTH = ("admin", "secret-password")

Call = Callable[..., Awaitable[tuple[int, Any]]]


def asked(home: Path, test: Callable[[Running, Call], Awaitable[None]], *config: str) -> None:
    async def main() -> None:
        async with running(home, "http://127.0.0.1:9", config=(*ADMIN, *config)) as server:

            async def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                answer = await server.client.request(method, "/admin_api" + path, content=content, auth=AUTH)
                return answer.status_code, answer.json()

            await test(server, call)

    run(main())


def test_the_three_files_are_given_and_stored_and_count_at_once(tmp_path: Path) -> None:
    """1.7, 5.1, 5.2, 5.5: live, unknown fields kept, groups into the edit file."""

    async def test(server: Running, call: Call) -> None:
        for path in ("/rag-tags", "/semantic-groups", "/thinking-chains", "/available-clusters", "/vectordb/status"):
            assert (await server.client.get("/admin_api" + path)).status_code in (401, 403), path
        assert await call("GET", "/rag-tags") == (200, {})
        assert await call("GET", "/semantic-groups") == (200, {"config": {}, "groups": {}})
        assert (await call("GET", "/thinking-chains"))[0] == 404
        tags = {"小克": {"tags": ["海:2"], "threshold": 0.3, "x": 1}, "甲": ["b"]}
        groups = {"config": {"a": 1}, "groups": {"编程": {"words": ["代码"], "weight": 2, "vector_id": "u"}}}
        chains = {"chains": {"default": ["前思维簇"], "b": {"clusters": ["x簇"], "kSequence": [2]}}}
        for path, body in (("/rag-tags", tags), ("/semantic-groups", groups), ("/thinking-chains", chains)):
            assert (await call("POST", path, body))[0] == 200
            assert await call("GET", path) == (200, body)
        folder = tmp_path / "memory"
        assert sorted(path.name for path in folder.iterdir()) == [
            "meta_thinking_chains.json",
            "rag_tags.json",
            "semantic_groups.edit.json",
        ]

    asked(tmp_path, test)


def test_an_installation_that_is_taken_over_keeps_its_place_and_the_edit_file_is_shown_first(tmp_path: Path) -> None:
    folder = tmp_path / "Plugin" / "RAGDiaryPlugin"
    folder.mkdir(parents=True)
    (folder / "semantic_groups.json").write_text('{"groups": {"a": {"words": ["b"]}}}', "utf-8")
    (tmp_path / "dailynote" / "逻辑簇").mkdir(parents=True)
    (tmp_path / "dailynote" / "小克").mkdir()

    async def test(_server: Running, call: Call) -> None:
        status, groups = await call("GET", "/semantic-groups")
        assert (status, list(groups["groups"])) == (200, ["a"])
        assert (await call("POST", "/semantic-groups", {"groups": {"c": {"words": []}}}))[0] == 200
        assert list((await call("GET", "/semantic-groups"))[1]["groups"]) == ["c"]
        assert "a" in (folder / "semantic_groups.json").read_text("utf-8")
        assert await call("GET", "/available-clusters") == (200, {"clusters": ["逻辑簇"]})
        status, answer = await call("GET", "/vectordb/status")
        assert (status, answer["success"]) == (200, True)
        assert isinstance(answer["status"], dict)
        (folder / "rag_tags.json").write_text("{half", "utf-8")
        assert (await call("GET", "/rag-tags"))[0] == 500

    asked(tmp_path, test)


def test_what_is_no_such_file_is_refused_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(_server: Running, call: Call) -> None:
        good = {"chains": {"a": ["x簇"]}}
        assert (await call("POST", "/thinking-chains", good))[0] == 200
        for body in ({}, {"chains": []}, {"chains": {"a": 7}}, {"chains": {"a": [7]}}, b"{", b"[]", b"[" * 100_000):
            assert (await call("POST", "/thinking-chains", body))[0] == 400, body
        for body in ({}, {"groups": []}, {"groups": {"a": 7}}, {"groups": {"a": {"words": [1]}}}):
            assert (await call("POST", "/semantic-groups", body))[0] == 400, body
        for body in ({"a": 7}, {"a": "b"}, b'{"a": {"tags": NaN}}'):
            assert (await call("POST", "/rag-tags", body))[0] == 400, body
        assert (await call("POST", "/rag-tags", {"a": ["x" * (5 * 2**20)]}))[0] == 400

        def full(*_: Any) -> Any:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(durable, "open_temporary", full)
            status, answer = await call("POST", "/thinking-chains", {"chains": {}})
        assert status == 500
        assert "No space left" in answer["error"]
        assert await call("GET", "/thinking-chains") == (200, good)

    asked(tmp_path, test)


def test_without_memory_the_state_is_503_as_in_the_reference(tmp_path: Path) -> None:
    async def test(_server: Running, call: Call) -> None:
        refused = {"success": False, "error": "VectorDBManager is not available."}
        assert await call("GET", "/vectordb/status") == (503, refused)

    asked(tmp_path, test, "Memory=false")
