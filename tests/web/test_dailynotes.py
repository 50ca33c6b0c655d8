"""Notes for administrators (memory.md 1.7; vcp-core 8.2): shapes, confined paths, conflicts, undo (11.1, 11.6; B3)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from app.config.snapshot import load
from app.extend import NotesChanged, Remembered
from app.services import Services
from app.web.app import create_app
from app.web.dailynotes import PREFIXES
from tests.web.asgi import Answered, ask, services_in

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())
NEW = "[2025-11-27] - 小克\n今天在河边散步。\nTag: 散步"


class Panel:
    """An administrator's requests to one server."""

    def __init__(self, home: Path, prefix: str = PREFIXES[0]) -> None:
        self.home = home
        self.root = home / "dailynote"
        self.services: Services = services_in(home, "AdminUsername=admin", "AdminPassword=secret")
        self.app = create_app(self.services)
        self.prefix = prefix
        self.changed: list[tuple[str, ...]] = []
        self.services.events.listen(lambda event: self.changed.append(event.paths), NotesChanged)

    async def get(self, path: str, *, prefix: str = "", query: str = "") -> Answered:
        return await _ask(self.app, "GET", (prefix or self.prefix) + path, query=query)

    async def post(self, path: str, body: Any, *headers: tuple[str, str]) -> Answered:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await _ask(self.app, "POST", self.prefix + path, *headers, data=data)

    def write(self, name: str, text: str | bytes, age: int = 0) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, ns=(1_764_200_000_123_000_000 - age * 10**9,) * 2)
        return path


async def _ask(
    app: Any, method: str, path: str, *headers: tuple[str, str], data: bytes = b"", query: str = ""
) -> Answered:
    async def with_query(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "query_string": query.encode()}, receive, send)

    return await ask(with_query, method, path, LOGIN, *headers, blocks=[data] if data else ())


def panel(home: Path, test: Callable[[Panel], Awaitable[None]], prefix: str = PREFIXES[0]) -> None:
    async def main() -> None:
        await test(Panel(home, prefix))

    asyncio.run(main())


@pytest.mark.parametrize("prefix", PREFIXES)
def test_notebooks_and_notes_are_listed_newest_first(tmp_path: Path, prefix: str) -> None:
    async def test(notes: Panel) -> None:
        notes.write("小克/a.txt", "第一行\r\n第二行" + "字" * 200, age=5)
        notes.write("小克/B.MD", "short\nnote")
        notes.write("小克/c.json", "{}")
        notes.write("公共/x.txt", "x")
        notes.write("root.txt", "of no notebook")
        (notes.root / "link").symlink_to(tmp_path)
        assert (await notes.get("/folders")).json == {"folders": ["公共", "小克"]}
        listed = (await notes.get("/folder/小克")).json
        assert listed == {
            "notes": [
                {"name": "B.MD", "lastModified": "2025-11-26T23:33:20.123Z", "preview": "short note"},
                {
                    "name": "a.txt",
                    "lastModified": "2025-11-26T23:33:15.123Z",
                    "preview": ("第一行 第二行" + "字" * 200)[:99] + "...",
                },
            ]
        }
        for name in ("没有", "link", "..", ".vcp"):
            assert (await notes.get(f"/folder/{name}")).status in (403, 404)

    panel(tmp_path, test, prefix)


def test_an_installation_without_diaries_has_no_notebooks(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        for path in sorted(notes.root.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        notes.root.rmdir()
        assert (await notes.get("/folders")).json == {"folders": []}
        assert (await notes.get("/search", query="term=x")).json == {"notes": [], "total": 0, "limited": False}

    panel(tmp_path, test)


def test_notes_are_searched_whole_in_any_case(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        notes.write("小克/old.txt", "x" * 10_000 + " Moonlight 河边", age=9)
        notes.write("小克/new.txt", "MOONLIGHT")
        notes.write("公共/sub/deep.md", "moonlight", age=20)
        notes.write("公共/other.txt", "sunlight")
        found = (await notes.get("/search", query="term=moonLIGHT")).json
        assert [(one["folderName"], one["name"]) for one in found["notes"]] == [
            ("小克", "new.txt"),
            ("小克", "old.txt"),
            ("公共", "sub/deep.md"),
        ]
        assert (found["total"], found["limited"]) == (3, False)
        assert found["notes"][1]["preview"] == "x" * 100 + "..."
        assert set(found["notes"][0]) == {"name", "folderName", "lastModified", "preview"}
        both = (await notes.get("/search", query=f"term={quote('河边')}%20moonlight&folder={quote('小克')}")).json
        assert [one["name"] for one in both["notes"]] == ["old.txt"]
        limited = (await notes.get("/search", query="term=light&limit=1")).json
        assert (len(limited["notes"]), limited["total"], limited["limited"]) == (1, 4, True)
        assert (await notes.get("/search", query="term=%20")).status == 400
        assert (await notes.get("/search", query="term=x&folder=nowhere")).status == 404
        assert (await notes.get("/search", query="term=x&folder=..%2F..")).status == 403
        assert (await notes.get("/admin/queue-status")).json["waiting"] == 0

    panel(tmp_path, test)


def test_a_note_is_read_saved_and_made(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        answer = await notes.post("/note/新的/a.txt", {"content": NEW})
        assert (answer.status, answer.json) == (200, {"message": "Saved successfully"})
        read = await notes.get("/note/新的/a.txt")
        assert read.json == {"content": NEW}
        assert read.headers["etag"] == answer.headers["etag"] == f'"{hashlib.sha256(NEW.encode()).hexdigest()}"'
        await notes.post("/note/新的/a.txt", {"content": "a\r\nb"})
        assert (notes.root / "新的/a.txt").read_bytes() == b"a\r\nb"
        assert notes.changed == [("新的/a.txt",), ("新的/a.txt",)]
        assert (await notes.get("/note/新的/gone.txt")).status == 404
        assert [entry.name for entry in (notes.root / "新的").iterdir()] == ["a.txt"]

    panel(tmp_path, test)


def test_half_a_character_in_a_saved_note_becomes_a_whole_mark(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        assert (await notes.post("/note/x/a.txt", b'{"content": "a\\ud83d"}')).status == 200
        assert (notes.root / "x/a.txt").read_text("utf-8") == "a\ufffd"

    panel(tmp_path, test)


@pytest.mark.parametrize("how", ["body", "header"])
def test_a_note_that_somebody_else_changed_is_not_overwritten(tmp_path: Path, how: str) -> None:
    async def test(notes: Panel) -> None:
        async def save(content: str, seen: str) -> Answered:
            if how == "body":
                return await notes.post("/note/x/a.txt", {"content": content, "expected": seen})
            return await notes.post("/note/x/a.txt", {"content": content}, ("if-match", f'"{seen}"'))

        assert (await save("one", "")).status == 200
        seen = (await notes.get("/note/x/a.txt")).headers["etag"].strip('"')
        (notes.root / "x/a.txt").write_text("somebody's", "utf-8")
        answer = await save("two", seen)
        assert answer.status == 409
        assert answer.json["current"] == hashlib.sha256(b"somebody's").hexdigest()
        assert answer.json["yours"] == hashlib.sha256(b"two").hexdigest()
        assert (notes.root / "x/a.txt").read_text("utf-8") == "somebody's"
        assert (await save("two", answer.json["current"])).status == 200
        assert (await save("three", "")).status == 409
        (notes.root / "x/a.txt").unlink()
        assert (await save("three", hashlib.sha256(b"two").hexdigest())).json["current"] == ""

    panel(tmp_path, test)


def test_what_was_not_shown_whole_is_kept_when_it_is_saved_over(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        notes.write("x/a.txt", "中文".encode("gbk"))
        assert "\ufffd" in (await notes.get("/note/x/a.txt")).json["content"]
        assert (await notes.post("/note/x/a.txt", {"content": "new"})).status == 200
        assert (notes.root / "x/a.txt").read_text("utf-8") == "new"
        (deleted,) = (await notes.get("/trash")).json["trash"]
        assert (tmp_path / ".vcp/trash/dailynote" / deleted["id"] / "x/a.txt").read_bytes() == "中文".encode("gbk")

    panel(tmp_path, test)


def test_notes_are_moved_and_never_over_another(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        notes.write("a/x.txt", "moved")
        notes.write("a/y.txt", "stays")
        notes.write("b/y.txt", "there")
        sources = [{"folder": "a", "file": name} for name in ("x.txt", "y.txt", "gone.txt", "../b/y.txt")]
        answer = (await notes.post("/move", {"sourceNotes": sources, "targetFolder": "b"})).json
        assert answer["moved"] == ["a/x.txt to b/x.txt"]
        assert [one["note"] for one in answer["errors"]] == ["a/y.txt", "a/gone.txt", "a/../b/y.txt"]
        assert "exists already" in answer["errors"][0]["error"]
        assert answer["message"] == "Moved 1 note(s). Encountered 3 error(s)."
        assert (notes.root / "a/y.txt").read_text() == "stays" and (notes.root / "b/y.txt").read_text() == "there"
        assert notes.changed == [("a/x.txt", "b/x.txt")]
        new = {"sourceNotes": [{"folder": "a", "file": "y.txt"}], "targetFolder": "new"}
        assert (await notes.post("/move", new)).json["moved"] == ["a/y.txt to new/y.txt"]
        assert (await notes.post("/move", {**new, "targetFolder": "../up"})).status == 403

    panel(tmp_path, test)


def test_deleted_notes_can_be_had_back(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        for name in ("a/x.txt", "a/y.txt", "b/sub/x.txt"):
            notes.write(name, name)
        asked = [
            {"folder": "a", "file": "x.txt"},
            {"folder": "a", "file": "y.txt"},
            {"folder": "b", "file": "sub/x.txt"},
        ]
        answer = (
            await notes.post("/delete-batch", {"notesToDelete": [*asked, {"folder": "a", "file": "no.txt"}]})
        ).json
        assert answer["deleted"] == ["a/x.txt", "a/y.txt", "b/sub/x.txt"]
        assert [one["note"] for one in answer["errors"]] == ["a/no.txt"]
        assert not (notes.root / "a/x.txt").exists()
        assert notes.changed == [("a/x.txt", "a/y.txt", "b/sub/x.txt")]
        assert (await notes.get("/trash")).json == {
            "trash": [{"id": answer["trash"], "notes": ["a/x.txt", "a/y.txt", "b/sub/x.txt"]}]
        }
        notes.write("a/x.txt", "a new one")
        back = (await notes.post("/restore", {"trash": answer["trash"], "notes": asked[:2]})).json
        assert (back["restored"], [one["note"] for one in back["errors"]]) == (["a/y.txt"], ["a/x.txt"])
        assert (notes.root / "a/x.txt").read_text() == "a new one"
        (notes.root / "a/x.txt").unlink()
        back = (await notes.post("/restore", {"trash": answer["trash"]})).json
        assert back["restored"] == ["a/x.txt", "b/sub/x.txt"]
        assert (notes.root / "b/sub/x.txt").read_text() == "b/sub/x.txt"
        assert (await notes.get("/trash")).json == {"trash": []}
        assert (await notes.post("/restore", {"trash": answer["trash"]})).status == 404
        assert (await notes.post("/restore", {"trash": "../../../etc"})).status == 404

    panel(tmp_path, test)


def test_old_deletions_go_for_good_with_the_next_one(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        old = tmp_path / ".vcp/trash/dailynote/2020-01-01T00-00-00-000Z/a"
        old.mkdir(parents=True)
        (old / "x.txt").write_text("old")
        for due, left in ((False, [None, "2020"]), (True, [None, None])):
            if due:  # a day has passed since the deletion before noted it
                (old.parent / ".due").write_text("2020-02-01T00:00:00+00:00")
            notes.write("a/y.txt", "y")
            await notes.post("/delete-batch", {"notesToDelete": [{"folder": "a", "file": "y.txt"}]})
            found = [re.match("2020", one["id"]) for one in (await notes.get("/trash")).json["trash"]]
            assert [one and one[0] for one in found] == left

    panel(tmp_path, test)


def test_without_days_in_the_trash_a_deletion_is_final(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        notes.write("a/y.txt", "y")
        settings = (tmp_path / "config.env").read_text("utf-8") + "\nMemoryTrashDays=0\n"
        (tmp_path / "config.env").write_text(settings, "utf-8")
        notes.services.in_force.config = load(tmp_path, {})
        answer = (await notes.post("/delete-batch", {"notesToDelete": [{"folder": "a", "file": "y.txt"}]})).json
        assert answer["deleted"] == ["a/y.txt"] and "trash" not in answer
        assert list((tmp_path / ".vcp/trash/dailynote").iterdir()) == []

    panel(tmp_path, test)


def test_only_an_empty_notebook_can_be_deleted(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        notes.write("a/x.txt", "x")
        answer = await notes.post("/folder/delete", {"folderName": "a"})
        assert (answer.status, "is not empty" in answer.json["error"]) == (400, True)
        (notes.root / "a/x.txt").unlink()
        assert (await notes.post("/folder/delete", {"folderName": "a"})).status == 200
        assert not (notes.root / "a").exists()
        assert (await notes.post("/folder/delete", {"folderName": "a"})).status == 404
        assert (await notes.post("/folder/delete", {"folderName": "../Plugin"})).status == 403

    panel(tmp_path, test)


def test_a_pipe_or_folder_in_the_place_of_a_note_is_not_waited_for(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        (notes.root / "a/d.txt").mkdir(parents=True)
        os.mkfifo(notes.root / "a/p.txt")
        for name in ("d.txt", "p.txt"):
            assert (await notes.get(f"/note/a/{name}")).status == 403
            assert (await notes.post(f"/note/a/{name}", {"content": "x"})).status == 403
        assert (await notes.get("/folder/a")).json == {"notes": []}

    panel(tmp_path, test)


OUTSIDE = ["/note/../config.env", "/note/%2e%2e/config.txt", "/note/link/secret.txt", "/note/a/link.txt"]
OUTSIDE += [
    "/note/a/..%2f..%2fsecret.txt",
    "/note/a/x.json",
    "/note/a/.hidden.txt",
    "/note/a/x%00.txt",
    "/note/.vcp/x.txt",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_notebooks(tmp_path: Path, path: str) -> None:
    async def test(notes: Panel) -> None:
        notes.write("a/x.txt", "x")
        (tmp_path / "outside").mkdir()
        for name in ("outside/secret.txt", "secret.txt"):
            (tmp_path / name).write_text("secret", "utf-8")
        (notes.root / "link").symlink_to(tmp_path / "outside")
        (notes.root / "a/link.txt").symlink_to(tmp_path / "secret.txt")
        spelt = unquote(path)  # what a web server makes of it
        assert (await notes.get(spelt)).status in (403, 404)
        assert (await notes.post(spelt, {"content": "overwritten"})).status in (403, 404, 405)
        assert (tmp_path / "secret.txt").read_text() == (tmp_path / "outside/secret.txt").read_text() == "secret"
        assert "overwritten" not in (tmp_path / "config.env").read_text("utf-8")

    panel(tmp_path, test)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/note/a/x.txt", {"content": 1}),
        ("/note/a/x.txt", {}),
        ("/note/a/x.txt", []),
        ("/note/a/x.txt", b"{"),
        ("/note/a/x.txt", {"content": "x", "expected": 1}),
        ("/note/a/x.txt", {"content": "字" * (3 * 1024 * 1024)}),
        ("/move", {"sourceNotes": "x", "targetFolder": "a"}),
        ("/move", {"sourceNotes": [{"folder": 1}], "targetFolder": "a"}),
        ("/move", {"sourceNotes": []}),
        ("/delete-batch", {"notesToDelete": [{}] * 10_001}),
        ("/restore", {}),
        ("/associative-discovery", {}),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(tmp_path: Path, path: str, body: Any) -> None:
    async def test(notes: Panel) -> None:
        answer = await notes.post(path, body)
        assert (answer.status, list(answer.json)) == (400, ["error"])
        assert notes.changed == []

    panel(tmp_path, test)


def test_associative_discovery_asks_memory_and_gives_one_entry_for_a_note(tmp_path: Path) -> None:
    async def test(notes: Panel) -> None:
        asked: dict[str, Any] = {}

        async def neighbours(paths: Any, **more: Any) -> Any:
            asked.update(more, paths=paths)
            return [
                Remembered("b", "b/y.txt", text, score, score, "vector", date(2025, 1, 1), "x", (), tags)
                for text, score, tags in (("近" * 300, 0.9, ("t",)), ("second", 0.7, ("t", "u")))
            ]

        answer = await notes.post("/associative-discovery", {"sourceFilePath": "a/x.txt"})
        assert answer.status == 404
        notes.write("a/x.txt", "x")
        notes.services.memory.for_plugins.neighbours = neighbours  # type: ignore[method-assign]
        body = {"sourceFilePath": "a\\x.txt", "k": "3", "range": ["b", 1], "tagBoost": "0.6+"}
        answer = await notes.post("/associative-discovery", body)
        assert asked == {"paths": ["a/x.txt"], "notebooks": ("b",), "k": 3, "tag_boost": 0.6}
        assert answer.json["source"] == "a/x.txt"
        assert answer.json["metadata"] == {"totalChunksFound": 2, "uniqueFilesFound": 1, "k": 3, "range": ["b"]}
        (result,) = answer.json["results"]
        assert result == {
            "path": "b/y.txt",
            "name": "y.txt",
            "score": 0.9,
            "chunks": ["近" * 200 + "...", "second"],
            "matchedTags": ["t", "u"],
            "tagMatchScore": 0,
        }
        assert (await notes.post("/associative-discovery", {"sourceFilePath": "../config.env"})).status == 403

    panel(tmp_path, test)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_nobody_but_an_administrator_comes_in(tmp_path: Path, prefix: str) -> None:
    async def test(notes: Panel) -> None:
        for header in (("authorization", "Bearer test-key-钥匙"), ("x", "y")):
            assert (await ask(notes.app, "GET", f"{prefix}/folders", header)).status == 401

    panel(tmp_path, test)


def test_a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(notes: Panel) -> None:
        def refuse(*_: object) -> int:
            raise OSError(28, "No space left on device")

        notes.write("a/x.txt", "before")
        monkeypatch.setattr(os, "fsync", refuse)
        answer = await notes.post("/note/a/x.txt", {"content": "after"})
        assert (answer.status, "No space left" in answer.json["error"]) == (500, True)
        assert [p.name for p in (notes.root / "a").iterdir()] == ["x.txt"]
        assert (notes.root / "a/x.txt").read_text() == "before"
        assert notes.changed == []

    panel(tmp_path, test)
