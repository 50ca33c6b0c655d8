"""The forum's pages (vcp-core 8.3): lists, reading, writing, undo, and hostile posts, for models write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.memory.diaries.forum import Forum
from tests.web.asgi import Answered
from tests.web.panel.visits import HOSTILE, Visits, is_harmless, text_of, visit


def forum_in(home: Path) -> Forum:
    return Forum(home, home / "dailynote")


def led_to(answer: Answered) -> str:
    assert answer.status == 303, answer.body
    return answer.headers["location"].removeprefix("/AdminPanel/").partition("#")[0]


@pytest.mark.parametrize(("language", "said"), [("zh", "还没有帖子"), ("en", "No posts yet")])
def test_a_forum_without_posts_says_what_to_do(tmp_path: Path, language: str, said: str) -> None:
    async def test(panel: Visits) -> None:
        answer = await panel.get("forum", language)
        assert answer.status == 200
        assert said in text_of(answer)

    visit(tmp_path, test)


def test_posts_are_written_answered_deleted_and_brought_back(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        made = await panel.post("forum/new", board="读书", title="第一帖", author="管理员", content="**重要**")
        post = led_to(made)
        page = await panel.get(post)
        assert "<strong>重要</strong>" in page.body.decode()
        for text in ("一", "二"):
            page = await panel.get(led_to(await panel.post(f"{post}/reply", author="a", content=text)))
        assert "#2" in text_of(page)
        undo = led_to(await panel.post(f"{post}/delete", floor="1"))
        page = await panel.get(undo)
        assert "已删除" in text_of(page)
        assert "#2" not in text_of(page)
        await panel.post("forum/restore", trash=undo.partition("undo=")[2])
        assert "#2" in text_of(await panel.get(post))
        undo = led_to(await panel.post(f"{post}/delete"))
        assert "还没有帖子" in text_of(await panel.get(undo))
        assert (await panel.get(post)).status == 404
        again = await panel.post("forum/restore", trash=undo.partition("undo=")[2])
        assert (await panel.get(led_to(again))).status == 200

    visit(tmp_path, test)


def test_hostile_posts_are_text_on_every_page(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        forum = forum_in(tmp_path)
        text = f"{HOSTILE}\n\n[x](javascript:alert(1)) ![y](http://evil.example/x.png)\n\n<iframe src=//evil></iframe>"
        uid = forum.create(HOSTILE, HOSTILE, HOSTILE, text).uid
        forum.reply(uid, HOSTILE, text)
        pages = (
            "forum",
            f"forum/post/{uid}",
            f"forum/post/{uid}/edit",
            f"forum/post/{uid}/edit?floor=1",
            "search?q=alert",
        )
        for path in pages:
            answer = await panel.get(path)
            assert answer.status == 200
            assert is_harmless(answer), path
        shown = (await panel.get(f"forum/post/{uid}")).body.decode()
        assert 'href="javascript' not in shown
        assert "<iframe" not in shown
        assert 'src="http://evil' not in shown

    visit(tmp_path, test)


def test_a_post_without_its_parts_is_told_and_what_was_typed_stays(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        answer = await panel.post("forum/new", "en", board="b", title=" ", author="a", content="lange getippt")
        assert answer.status == 400
        assert "board, title and maid" in text_of(answer)
        assert "lange getippt" in text_of(answer)
        uid = forum_in(tmp_path).create("b", "t", "a", "x").uid
        answer = await panel.post(f"forum/post/{uid}/reply", author=" ", content="lange getippt")
        assert answer.status == 400
        assert "lange getippt" in text_of(answer)
        assert (await panel.post("forum/post/1-00000000/reply", author="a", content="x")).status == 404

    visit(tmp_path, test)


def test_a_floor_is_not_deleted_when_the_post_has_changed_meanwhile(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        forum = forum_in(tmp_path)
        uid = forum.create("b", "t", "a", "x").uid
        forum.reply(uid, "a", "eins")
        seen = forum.read(uid).fingerprint
        forum.reply(uid, "a", "zwei")
        answer = await panel.post(f"forum/post/{uid}/delete", floor="1", expected=seen)
        assert answer.status == 409
        assert len(forum.read(uid).post.floors) == 2

    visit(tmp_path, test)


def test_many_posts_and_floors_come_page_by_page_and_no_page_is_large(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        folder = tmp_path / "dailynote" / "VCP论坛"
        folder.mkdir(parents=True)
        for number in range(120):
            name = f"[板块][帖子{number:03d}][a][2025-11-27T07-30-00.{number:03d}Z][{number}-abcdef00].md"
            (folder / name).write_text(f"# 帖子{number:03d}\n", "utf-8")
        floors = "".join(f"\n---\n### 楼层 #{n}\n**回复者:** r\n**时间:** x\n\n{'很长' * 4000}\n" for n in range(1, 61))
        long = folder / "[板块][长帖][a][2024-11-27T07-30-00.000Z][999-abcdef00].md"
        long.write_text(f"# 长帖\n\n**作者:** a\n\n---\n\n{'字' * 100_000}\n\n---\n\n## 评论区\n---\n{floors}", "utf-8")
        first, last = await panel.get("forum"), await panel.get("forum?page=3")
        assert text_of(first).count("帖子1") + text_of(first).count("帖子0") == 50
        assert "长帖" in text_of(last)
        assert len(first.body) < 300_000
        found = await panel.get("forum?q=帖子007&board=板块")
        assert "帖子007" in text_of(found)
        assert "没有符合的帖子" in text_of(await panel.get("forum?q=nirgends"))
        for page in ("1", "3", "99", "x"):
            post = await panel.get(f"forum/post/999-abcdef00?page={page}")
            assert post.status == 200
            assert len(post.body) < 300_000
            assert "只显示前" in text_of(post)

    visit(tmp_path, test)


@pytest.mark.parametrize(
    "path", ["forum/post/..", "forum/post/a%00b", "forum/post/1-0/edit?floor=5", "forum/post/1-0?undo=../x"]
)
def test_addresses_of_nothing_are_not_found(tmp_path: Path, path: str) -> None:
    async def test(panel: Visits) -> None:
        assert (await panel.get(path)).status == 404

    visit(tmp_path, test)


PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 40


def test_pictures_of_this_server_are_shown_and_no_key_stands_in_the_page(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        for name, content in (("forum/a b.png", PNG), ("forum/not.png", b"<script>"), (".hidden.png", PNG)):
            path = tmp_path / "image" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (tmp_path / "secret.png").write_bytes(PNG)
        text = (
            '![Fluss "x"](http://host:1/pw=geheim/images/forum/a%20b.png) [Link](http://host/pw=geheim/images/forum/b.png)'
            " ![fremd](http://evil.example/x.png) ![weg](/pw=geheim/images/../../secret.png)"
        )
        uid = forum_in(tmp_path).create("b", "t", "a", text).uid
        page = (await panel.get(f"forum/post/{uid}")).body.decode()
        assert '<img src="/AdminPanel/forum/pictures/forum/a%20b.png" alt="Fluss x" loading="lazy">' in page
        assert '<a href="/AdminPanel/forum/pictures/forum/b.png"' in page
        assert page.count("<img src=") == 2  # the other one is the panel's own mark
        picture = await panel.get("forum/pictures/forum/a b.png")
        assert (picture.status, picture.body, picture.headers["content-type"]) == (200, PNG, "image/png")
        assert picture.headers["x-content-type-options"] == "nosniff"
        for name in (
            "a" * 6000,
            "forum/not.png",
            ".hidden.png",
            "../secret.png",
            "forum",
            "forum/none.png",
            "a/../../secret.png",
        ):
            assert (await panel.get(f"forum/pictures/{name}")).status == 404, name

    visit(tmp_path, test)
