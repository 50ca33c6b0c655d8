"""``/admin_api/forum`` (vcp-core 8.2): shapes, errors, floors, conflicts, undo; nothing outside of the forum (B3)."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.extend import Event, NotesChanged
from app.web.app import create_app
from tests.web.asgi import Answered, ask, services_in

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())
POST = {"maid": "小克", "board": "读书", "title": "第一帖", "content": "正文"}


class Admin:
    """An administrator's requests to one server."""

    def __init__(self, home: Path) -> None:
        services = services_in(home, "AdminUsername=admin", "AdminPassword=secret")
        self.app = create_app(services)
        self.changed: list[str] = []
        services.events.listen(self._heard, NotesChanged)

    def _heard(self, event: Event) -> None:
        assert isinstance(event, NotesChanged)
        self.changed.extend(event.paths)

    async def __call__(self, method: str, path: str, body: Any = None, *headers: tuple[str, str]) -> Answered:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        length = ("content-length", str(len(data)))
        path = f"/admin_api/forum{path}"
        return await ask(self.app, method, path, LOGIN, length, *headers, blocks=[data] if data else ())

    async def posted(self) -> str:
        made = await self("POST", "/posts", POST)
        assert made.status == 200, made.body
        return str(made.json["uid"])


def admin(home: Path, test: Callable[[Admin], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Admin(home))

    asyncio.run(main())


def folder(home: Path) -> Path:
    return home / "dailynote" / "VCP论坛"


def test_posts_are_listed_in_the_shape_that_panels_know(tmp_path: Path) -> None:
    async def test(forum: Admin) -> None:
        assert (await forum("GET", "/posts")).json == {"success": True, "posts": []}
        folder(tmp_path).mkdir(parents=True)
        old = folder(tmp_path) / "[闲聊][旧帖][阿文][2025-11-27T07-30-00.000Z][1764228600000-1a2b3c4d].md"
        old.write_text("# 旧帖\n\n**作者:** 阿文\n\n---\n\nx\n\n---\n\n## 评论区\n---\n", "utf-8")
        uid = await forum.posted()
        await forum("POST", f"/reply/{uid}", {"maid": "阿文", "content": "沙发"})
        newest, oldest = (await forum("GET", "/posts")).json["posts"]
        assert oldest == {
            "board": "闲聊",
            "title": "旧帖",
            "author": "阿文",
            "timestamp": "2025-11-27T07-30-00.000Z",
            "uid": "1764228600000-1a2b3c4d",
            "filename": old.name,
            "lastReplyBy": None,
            "lastReplyAt": None,
        }
        assert (newest["uid"], newest["lastReplyBy"]) == (uid, "阿文")
        assert newest["lastReplyAt"].endswith("Z")
        assert set(forum.changed) == {f"VCP论坛/{newest['filename']}"}

    admin(tmp_path, test)


def test_a_post_is_read_answered_edited_and_its_floors_deleted(tmp_path: Path) -> None:
    async def test(forum: Admin) -> None:
        uid = await forum.posted()
        for text in ("eins", "zwei", "drei"):
            said = await forum("POST", f"/reply/{uid}", {"maid": "阿文", "content": text})
            assert said.json["success"] is True
        assert "message" in (await forum("PATCH", f"/post/{uid}", {"content": "neu"})).json
        assert (await forum("PATCH", f"/post/{uid}", {"floor": 3, "content": "DREI"})).status == 200
        deleted = await forum("DELETE", f"/post/{uid}", {"floor": 1})
        assert deleted.json["success"] is True
        read = await forum("GET", f"/post/{uid}")
        content = read.json["content"]
        assert "\n\nneu\n\n" in content
        assert "eins" not in content
        assert content.index("楼层 #1") < content.index("zwei") < content.index("楼层 #2") < content.index("DREI")
        restored = await forum("POST", "/restore", {"trash": deleted.json["trash"]})
        assert restored.json["uid"] == uid
        assert "eins" in (await forum("GET", f"/post/{uid}")).json["content"]
        gone = await forum("DELETE", f"/post/{uid}")
        assert (await forum("GET", f"/post/{uid}")).status == 404
        assert not list(folder(tmp_path).iterdir())
        assert (await forum("POST", "/restore", {"trash": gone.json["trash"]})).json["uid"] == uid
        assert (await forum("GET", f"/post/{uid}")).status == 200

    admin(tmp_path, test)


@pytest.mark.parametrize("floor", [0, -1, "x", 1.5, True, [], "99999999999", {}])
def test_a_floor_that_is_none_is_a_bad_request_and_a_missing_one_not_found(tmp_path: Path, floor: Any) -> None:
    async def test(forum: Admin) -> None:
        uid = await forum.posted()
        for method in ("DELETE", "PATCH"):
            answer = await forum(method, f"/post/{uid}", {"floor": floor, "content": "x"})
            assert (answer.status, answer.json["success"]) == (400, False)
            missing = await forum(method, f"/post/{uid}", {"floor": 5, "content": "x"})
            assert (missing.status, missing.json["success"]) == (404, False)

    admin(tmp_path, test)


@pytest.mark.parametrize("uid", ["..", "..%2F..%2Fconfig.env", "%2e%2e", "1-00000000", "a%00b", "[x]"])
def test_an_id_that_is_none_is_not_found_and_leads_nowhere(tmp_path: Path, uid: str) -> None:
    async def test(forum: Admin) -> None:
        await forum.posted()
        for method, path in (("GET", "post"), ("DELETE", "post"), ("PATCH", "post"), ("POST", "reply")):
            answer = await forum(method, f"/{path}/{uid}", {"maid": "a", "content": "x"})
            assert answer.status in (400, 404)
        assert len(list(folder(tmp_path).iterdir())) == 1

    admin(tmp_path, test)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"maid": 5, "content": []}', b'{"maid": " ", "content": "x"}', b"\xff"]
)
def test_bodies_that_say_nothing_are_bad_requests(tmp_path: Path, body: bytes) -> None:
    async def test(forum: Admin) -> None:
        uid = await forum.posted()
        before = (await forum("GET", f"/post/{uid}")).body
        for method, path in (("POST", f"/reply/{uid}"), ("POST", "/posts"), ("POST", "/restore")):
            answer = await forum(method, path, body)
            assert (answer.status, answer.json["success"]) == (400, False), path
        assert (await forum("GET", f"/post/{uid}")).body == before

    admin(tmp_path, test)


def test_whoever_edits_an_older_version_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    async def test(forum: Admin) -> None:
        uid = await forum.posted()
        read = (await forum("GET", f"/post/{uid}")).headers["etag"]
        await forum("POST", f"/reply/{uid}", {"maid": "阿文", "content": "dazwischen"})
        answer = await forum("PATCH", f"/post/{uid}", {"content": "mein"}, ("if-match", read))
        assert (answer.status, answer.json["success"]) == (409, False)
        assert answer.json["content"] == "正文"
        assert answer.json["current"] == (await forum("GET", f"/post/{uid}")).headers["etag"].strip('"')
        again = {"content": "mein", "expected": answer.json["current"]}
        assert (await forum("POST", f"/post/{uid}", again)).status == 200
        late = await forum("POST", f"/post/{uid}", {"content": "x", "floor": 1, "expected": read.strip('"')})
        assert (late.status, late.json["content"]) == (409, "dazwischen")

    admin(tmp_path, test)


def test_two_writers_lose_nothing_of_each_other(tmp_path: Path) -> None:
    async def test(forum: Admin) -> None:
        uid = await forum.posted()
        said = [forum("POST", f"/reply/{uid}", {"maid": "a", "content": f"text {n}"}) for n in range(12)]
        answers = await asyncio.gather(*said)
        assert sorted(answer.json["floor"] for answer in answers) == list(range(1, 13))
        content = (await forum("GET", f"/post/{uid}")).json["content"]
        assert all(f"text {number}\n" in content for number in range(12))

    admin(tmp_path, test)


def test_a_disk_that_refuses_is_told_and_the_post_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(forum: Admin) -> None:
        uid = await forum.posted()
        before = (await forum("GET", f"/post/{uid}")).body

        def full(_descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            answer = await forum("POST", f"/reply/{uid}", {"maid": "a", "content": "x"})
        assert (answer.status, answer.json["success"]) == (500, False)
        assert "No space left" in answer.json["error"]
        assert (await forum("GET", f"/post/{uid}")).body == before
        assert len(list(folder(tmp_path).iterdir())) == 1

    admin(tmp_path, test)
