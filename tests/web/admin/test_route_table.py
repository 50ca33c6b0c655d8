"""Every route of the table of vcp-core 8.2: it is there, takes what panels send and answers in their shape.

One server is asked from the first row to the last, as a panel would; what each route does in depth is tested beside it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.server import ECHO, KEY, Running, run, running, write_plugin

LOGIN = {"Authorization": "Basic " + b64encode(b"admin:secret").decode()}
CONFIG = ("AdminUsername=admin", "AdminPassword=secret")
RESTING = ("API_URL=http://127.0.0.1:9", f"Key={KEY}", "RunStaticPlugins=false", "MemoryEmbedder=hashing")
UID = "1763632800000-abcdef01"
FORUM = "dailynote/VCP论坛"
MESSAGE = {"message"}
ERROR = {"error"}
NOT_JSON = "a text"
"""A body that is no object, which each route that takes one refuses."""


@dataclass(frozen=True, slots=True)
class Row:
    """A request and what comes back: the status, keys that the answer has; ``list`` says that it is an array."""

    method: str
    path: str
    status: int = 200
    keys: frozenset[str] | type[list[Any]] = frozenset()
    body: Any = None


def get(path: str, *keys: str, status: int = 200) -> Row:
    return Row("GET", path, status, frozenset(keys))


def listed(path: str) -> Row:
    return Row("GET", path, 200, list)


def post(path: str, body: Any, *keys: str, status: int = 200) -> Row:
    return Row("POST", path, status, frozenset(keys or MESSAGE), body)


def refused(method: str, path: str, body: Any, *statuses: int) -> list[Row]:
    """Requests that a route cannot take: ``body``, and one that is no object."""
    return [Row(method, path, statuses[0] if statuses else 400, frozenset(ERROR), one) for one in (body, NOT_JSON)]


NOTE = "/dailynotes/note/小克/a.txt"
OTHER = "/dailynotes/note/小克/b.txt"
AGENT = {
    "baseName": "NOVA",
    "chineseName": "诺娃",
    "modelId": "m",
    "systemPrompt": 'You say "yes".',
    "maxOutputTokens": 100,
    "temperature": 0.5,
    "description": "one",
}
ASSISTANT = {"maxHistoryRounds": 7, "contextTtlHours": 24, "globalSystemPrompt": "", "agents": [AGENT]}
PRESET = {"name": "morning", "rules": []}
CHOICE = {"selectedTools": ["Echo"], "toolDescriptions": {}}
EXPORT = {**CHOICE, "includeHeader": True, "includeExamples": True}
POST_KEYS = ("success", "error")

TABLE: dict[str, Sequence[Row]] = {
    "system": (
        get("/system-monitor/pm2/processes", "success", "processes"),
        get("/system-monitor/system/resources", "success", "system"),
        get("/user-auth-code", "success", "error", "details", status=500),  # its plugin rests in this server
        get("/server-log", "content", status=404),  # and it writes none
        post("/server/restart", {}, "error", status=503),  # and nobody would start it anew
    ),
    "configuration": (
        get("/config/main", "content"),
        get("/config/main/raw", "content"),
        *refused("POST", "/config/main", {"content": 1}),
        post("/config/main", {"content": "\n".join((*CONFIG, *RESTING))}),
    ),
    "plugins": (
        listed("/plugins"),
        *refused("POST", "/plugins/Echo/toggle", {"enable": "yes"}),
        post("/plugins/Nobody/toggle", {"enable": True}, "error", status=404),
        post("/plugins/Echo/toggle", {"enable": False}),
        post("/plugins/Echo/toggle", {"enable": True}),
        *refused("POST", "/plugins/Echo/description", {"description": 1}),
        post("/plugins/Nobody/description", {"description": "x"}, "error", status=404),
        post("/plugins/Echo/description", {"description": "says it again"}),
        *refused("POST", "/plugins/Echo/config", {"content": None}),
        post("/plugins/Nobody/config", {"content": "A=1"}, "error", status=404),
        post("/plugins/Echo/config", {"content": "A=1\n"}),
        *refused("POST", "/plugins/Echo/commands/Say/description", {}),
        post("/plugins/Echo/commands/None/description", {"description": "x"}, "error", status=404),
        post("/plugins/Nobody/commands/Say/description", {"description": "x"}, "error", status=404),
        post("/plugins/Echo/commands/Say/description", {"description": "says it"}),
        get("/preprocessors/order", "status", "order"),
        *(Row("POST", "/preprocessors/order", 400, frozenset({"status", "message"}), one) for one in ({}, NOT_JSON)),
        post("/preprocessors/order", {"order": ["ImageProcessor", "VCPTavern"]}, "status", "message", "newOrder"),
    ),
    "media cache": (
        get("/multimodal-cache"),
        *refused("POST", "/multimodal-cache", {"data": []}),
        post("/multimodal-cache", {"data": {}}),
        *refused("POST", "/multimodal-cache/reidentify", {}),
        get("/image-cache"),
        *refused("POST", "/image-cache", {"data": "x"}),
        post("/image-cache", {"data": {}}),
        *refused("POST", "/image-cache/reidentify", {"base64Key": 1}),
    ),
    "diaries": (
        get("/dailynotes/folders", "folders"),
        post(NOTE, {"content": "white egrets\n"}),
        post(OTHER, {"content": "x" * 200}),
        *refused("POST", NOTE, {"content": 1}),
        get("/dailynotes/folder/小克", "notes"),
        get("/dailynotes/folder/nobody", "error", status=404),
        get("/dailynotes/search?term=EGRETS", "notes"),
        get("/dailynotes/search?term=egrets&folder=小克", "notes"),
        get("/dailynotes/search", "error", status=400),
        get("/dailynotes/search?term=x&folder=nobody", "error", status=404),
        get(NOTE, "content"),
        get("/dailynotes/note/小克/none.txt", "error", status=404),
        *refused("POST", "/dailynotes/move", {"sourceNotes": "a", "targetFolder": "公共"}),
        post(
            "/dailynotes/move",
            {"sourceNotes": [{"folder": "小克", "file": "a.txt"}], "targetFolder": "公共"},
            *("message", "moved", "errors"),
        ),
        *refused("POST", "/dailynotes/delete-batch", {"notesToDelete": {}}),
        post(
            "/dailynotes/delete-batch",
            {"notesToDelete": [{"folder": "小克", "file": "b.txt"}]},
            *("message", "deleted", "errors"),
        ),
    ),
    "agents and variables": (
        get("/agents/map"),
        *refused("POST", "/agents/map", []),
        post("/agents/map", {"Nova": "Nova.txt"}),
        get("/agents/map", "Nova"),
        *refused("POST", "/agents/new-file", {}),
        post("/agents/new-file", {"fileName": "Nova"}),
        post("/agents/new-file", {"fileName": "Nova"}, "error", status=409),
        post("/agents/new-file", {"fileName": "Mia.md", "folderPath": "friends"}),
        get("/agents", "files", "folderStructure"),
        get("/agents/Nova.txt", "content"),
        get("/agents/friends%2FMia.md", "content"),
        get("/agents/None.txt", "error", status=404),
        get("/agents/Nova.exe", "error", status=400),
        *refused("POST", "/agents/Nova.txt", {"content": 1}),
        post("/agents/Nova.exe", {"content": "x"}, "error", status=400),
        post("/agents/Nova.txt", {"content": "You are Nova."}),
        get("/tvsvars", "files"),
        post("/tvsvars/Guide.txt", {"content": "words"}),
        *refused("POST", "/tvsvars/Guide.txt", {"content": None}),
        get("/tvsvars/Guide.txt", "content"),
        get("/tvsvars/None.txt", "error", status=404),
        get("/tvsvars/Guide.md", "error", status=400),
    ),
    "rag": (
        get("/rag-tags"),
        *refused("POST", "/rag-tags", []),
        post("/rag-tags", {"小克": {"tags": ["西湖"]}}),
        get("/rag-tags", "小克"),
        get("/semantic-groups", "config", "groups"),
        *refused("POST", "/semantic-groups", []),
        post("/semantic-groups", {"config": {}, "groups": {}}),
        get("/thinking-chains", "error", status=404),
        *refused("POST", "/thinking-chains", []),
        post("/thinking-chains", {"chains": {}}),
        get("/thinking-chains", "chains"),
        get("/available-clusters", "clusters"),
        get("/vectordb/status", "success", "status"),
    ),
    "agent assistant": (
        get("/agent-assistant/config", *ASSISTANT),
        *refused("POST", "/agent-assistant/config", {"agents": "none"}),
        post("/agent-assistant/config", ASSISTANT),
    ),
    "tool lists": (
        get("/tool-list-editor/tools", "tools"),
        get("/tool-list-editor/configs", "configs"),
        get("/tool-list-editor/config/mine", "error", status=404),
        *refused("POST", "/tool-list-editor/config/mine", {"selectedTools": "all"}),
        post("/tool-list-editor/config/mine", CHOICE, "status", "message"),
        get("/tool-list-editor/config/mine", *CHOICE),
        Row("DELETE", "/tool-list-editor/config/mine", 200, frozenset({"status", "message"})),
        Row("DELETE", "/tool-list-editor/config/mine", 404, frozenset(ERROR)),
        get("/tool-list-editor/check-file/tools", "exists"),
        *refused("POST", "/tool-list-editor/export/tools", {"selectedTools": 1}),
        post("/tool-list-editor/export/tools", EXPORT, "status", "filePath"),
    ),
    "forum": (
        get("/forum/posts", "success", "posts"),
        get(f"/forum/post/{UID}", "success", "content"),
        get("/forum/post/1-2", *POST_KEYS, status=404),
        post(f"/forum/reply/{UID}", {"maid": "小克", "content": "yes"}, "success", "message"),
        post(f"/forum/reply/{UID}", {"maid": "小克"}, *POST_KEYS, status=400),
        post("/forum/reply/1-2", {"maid": "小克", "content": "yes"}, *POST_KEYS, status=404),
        Row("PATCH", f"/forum/post/{UID}", 200, frozenset({"success", "message"}), {"content": "anew"}),
        Row("PATCH", f"/forum/post/{UID}", 200, frozenset({"success", "message"}), {"floor": 1, "content": "no"}),
        Row("PATCH", f"/forum/post/{UID}", 400, frozenset(POST_KEYS), {}),
        Row("PATCH", "/forum/post/1-2", 404, frozenset(POST_KEYS), {"content": "anew"}),
        Row("DELETE", f"/forum/post/{UID}", 400, frozenset(POST_KEYS), {"floor": "first"}),
        Row("DELETE", f"/forum/post/{UID}", 200, frozenset({"success", "message"}), {"floor": 1}),
        Row("DELETE", f"/forum/post/{UID}", 200, frozenset({"success", "message"})),
        Row("DELETE", f"/forum/post/{UID}", 404, frozenset(POST_KEYS)),
    ),
    "tavern": (
        listed("/vcptavern/presets"),
        get("/vcptavern/presets/morning", "error", status=404),
        post("/vcptavern/presets/morning", PRESET, "message", "name"),
        post("/vcptavern/presets/早上", PRESET, "error", status=400),
        *refused("POST", "/vcptavern/presets/morning", []),
        get("/vcptavern/presets/morning", *PRESET),
        Row("DELETE", "/vcptavern/presets/morning", 200, frozenset(MESSAGE)),
        Row("DELETE", "/vcptavern/presets/morning", 404, frozenset(ERROR)),
    ),
}
"""Rows by the groups of the table, each in the order in which it is asked."""


async def send(server: Running, row: Row, headers: Mapping[str, str] = LOGIN) -> httpx.Response:
    path, mark, query = row.path.partition("?")
    address = f"/admin_api{quote(path, safe='/%')}{mark}{query}"
    content = None if row.body is None else json.dumps(row.body).encode()
    sent = {**headers, **({} if content is None else {"Content-Type": "application/json"})}
    return await server.client.request(row.method, address, content=content, headers=sent)


def problem(row: Row, answer: httpx.Response) -> str | None:
    """What is wrong with an answer; None: nothing."""
    told = f"{row.method} {row.path} {row.body!r}: {answer.status_code} {answer.text[:300]}"
    if answer.status_code != row.status:
        return f"not {row.status}: {told}"
    document = answer.json()
    if not isinstance(row.keys, frozenset):
        return None if isinstance(document, list) else f"no array: {told}"
    missing = row.keys - set(document if isinstance(document, dict) else ())
    return None if isinstance(document, dict) and not missing else f"lacks {sorted(missing)}: {told}"


def installation(home: Path) -> None:
    commands = {"invocationCommands": [{"commandIdentifier": "Say", "description": "says", "example": "an example"}]}
    write_plugin(home, "Echo", ECHO, description="echoes", capabilities=commands)
    forum = home / FORUM
    forum.mkdir(parents=True)
    (forum / f"[技术][西湖][Nova][2026-11-20T10-00-00.000Z][{UID}].md").write_text(
        f"# 西湖\n\n**作者:** Nova\n**UID:** {UID}\n**时间戳:** 2026-11-20T10:00:00.000Z\n"
        "**路径:** ./x\n\n---\n\n正文\n\n---\n\n## 评论区\n---\n",
        encoding="utf-8",
    )


def serving(home: Path, test: Callable[[Running], Awaitable[None]]) -> None:
    async def main() -> None:
        installation(home)
        async with running(home, "http://127.0.0.1:9", config=CONFIG) as server:
            await test(server)

    run(main())


def test_each_route_of_the_table_answers_in_its_shape(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        found = [problem(row, await send(server, row)) for rows in TABLE.values() for row in rows]
        assert not (wrong := list(filter(None, found))), "\n".join(wrong)

    serving(tmp_path, test)


def test_nobody_gets_in_by_any_route_with_the_key_alone_or_from_another_site(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        for row in (row for rows in TABLE.values() for row in rows):
            answer = await send(server, row, {})
            assert answer.status_code == 401, f"{row.method} {row.path}: {answer.status_code}"
            if row.method != "GET":
                answer = await send(server, row, {**LOGIN, "Origin": "https://evil.example"})
                assert answer.status_code == 403, f"{row.method} {row.path}: {answer.status_code}"

    serving(tmp_path, test)
