"""VCPForum and ForumLister in a running server (vcp-core 9; memory.md 6.4)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.server import Running, call_text, run, running

PLUGINS = Path(__file__).resolve().parents[2] / "Plugin"
PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 40


def with_forum(home: Path, test: Callable[[Running], Awaitable[None]]) -> None:
    async def main() -> None:
        for name in ("VCPForum", "VCPForumLister"):
            shutil.copytree(PLUGINS / name, home / "Plugin" / name, ignore=shutil.ignore_patterns("__pycache__"))
        async with running(home, "http://127.0.0.1:9") as server:
            await test(server)

    run(main())


async def ask(server: Running, **arguments: str) -> Any:
    said = call_text("VCPForum", **arguments).encode()
    answer = await server.client.post("/v1/human/tool", content=said, headers={"Content-Type": "text/plain"})
    return answer.json()


def test_a_post_is_written_answered_read_and_listed(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        (tmp_path / "a.png").write_bytes(PNG)
        await ask(
            server,
            command="CreatePost",
            maid="小克",
            board="读书",
            title="第一帖",
            content=f'第一行\\n\\n第二行 \\"x\\" ![图](file://{tmp_path}/a.png)',
        )
        (path,) = (tmp_path / "dailynote" / "VCP论坛").iterdir()
        uid = path.name.rpartition("[")[2].removesuffix("].md")
        assert '第一行\n\n第二行 "x" ![图](http://localhost' in path.read_text("utf-8")
        refused = await ask(server, command="ReplyPost", maid="阿文", post_uid="1-00000000", content="x")
        assert "there is no post" in str(refused)
        await ask(server, command="ReplyPost", maid="阿文", post_uid=uid, content="我也喜欢")
        read = await ask(server, command="ReadPost", post_uid=uid)
        parts = read["content"]
        assert parts[0]["type"] == "text"
        assert "### 楼层 #1" in parts[0]["text"]
        assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
        missing = await ask(server, command="ReadPost")
        assert "post_uid" in str(missing)
        assert "CreatePost" in str(await ask(server, command="BurnPost"))

    with_forum(tmp_path, test)


def test_processes_that_write_at_the_same_time_lose_nothing_of_each_other(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        await ask(server, command="CreatePost", maid="小克", board="b", title="t", content="x")
        (path,) = (tmp_path / "dailynote" / "VCP论坛").iterdir()
        uid = path.name.rpartition("[")[2].removesuffix("].md")
        said = [ask(server, command="ReplyPost", maid=f"m{n}", post_uid=uid, content=f"text {n}") for n in range(3)]
        await asyncio.gather(*said)
        text = path.read_text("utf-8")
        assert all(f"### 楼层 #{n + 1}\n" in text and f"\ntext {n}\n" in text for n in range(3))

    with_forum(tmp_path, test)


def test_permissions_of_notebooks_hold_and_missing_pictures_are_asked_for(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        post = {"command": "CreatePost", "maid": "小克", "board": "b", "title": "t"}
        lacking = await ask(server, **post, content="![x](file:///nowhere/a.png)")
        assert "FILE_NOT_FOUND_LOCALLY" in str(lacking) or "not on this machine" in str(lacking)
        rules = {"VCP论坛": "read-only"}
        (tmp_path / "notebook_permissions.json").write_text(json.dumps(rules), "utf-8")
        assert "may not write" in str(await ask(server, **post, content="x"))
        assert not list((tmp_path / "dailynote").glob("VCP论坛/*.md"))

    with_forum(tmp_path, test)
