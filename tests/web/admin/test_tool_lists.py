"""The editor of tool lists (vcp-core 8.1, 8.2): tools, stored choices, exported texts, confined names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server import run
from tests.web.admin.writing import Writer

OUTSIDE = ("..%2Fx", "%252E%252E%252Fx", "a%2Fb", "..", "x%00", "a%5Cb", "link", " ", "x" * 200)


def admin_with_plugins(home: Path) -> Writer:
    """Two plugins of our own beside the shipped ones: one command, two commands."""
    for name, commands in {
        "ZLast": [{"commandIdentifier": "say", "command": "say", "description": "说话。\n一行", "example": "E1\nE2"}],
        "AFirst": [
            {"commandIdentifier": "open", "description": "Opens."},
            {"commandIdentifier": "say", "description": "Says.", "example": "X"},
        ],
    }.items():
        folder = home / "Plugin" / name
        folder.mkdir(parents=True)
        manifest = {
            "name": name,
            "displayName": f"显示{name}",
            "pluginType": "synchronous",
            "entryPoint": {"command": "true"},
            "communication": {"protocol": "stdio"},
            "capabilities": {"invocationCommands": commands},
        }
        (folder / "plugin-manifest.json").write_text(json.dumps(manifest), "utf-8")
    return Writer(home)


def test_each_command_is_a_tool_of_the_list(tmp_path: Path) -> None:
    admin = admin_with_plugins(tmp_path)

    async def main() -> None:
        answer = await admin.get("/admin_api/tool-list-editor/tools")
        tools = [tool for tool in answer.json["tools"] if tool["pluginName"] in ("AFirst", "ZLast")]
        assert tools == [
            {
                "name": "open",
                "pluginName": "AFirst",
                "displayName": "显示AFirst",
                "description": "Opens.",
                "example": "",
            },
            {
                "name": "say",
                "pluginName": "AFirst",
                "displayName": "显示AFirst",
                "description": "Says.",
                "example": "X",
            },
            {
                "name": "say",
                "pluginName": "ZLast",
                "displayName": "显示ZLast",
                "description": "说话。\n一行",
                "example": "E1\nE2",
            },
        ]
        assert any(tool["pluginName"] == "SciCalculator" for tool in answer.json["tools"])

    run(main())


def test_choices_are_stored_given_and_deleted(tmp_path: Path) -> None:
    """8.2: missing is 404; unknown fields stay; a choice that changed meanwhile is a conflict."""
    admin = Writer(tmp_path)

    async def main() -> None:
        base = "/admin_api/tool-list-editor"
        assert (await admin.get(f"{base}/configs")).json == {"configs": []}
        body = {"selectedTools": ["say"], "toolDescriptions": {"say": "x"}, "more": 1}
        saved = await admin.post(f"{base}/config/日常 1", {**body, "expected": ""})
        assert (saved.status, saved.json["status"]) == (200, "success")
        assert (await admin.get(f"{base}/config/日常 1")).json == body
        assert (await admin.get(f"{base}/configs")).json == {"configs": ["日常 1"]}
        again = await admin.post(f"{base}/config/日常 1", {**body, "expected": ""})
        assert (again.status, json.loads(again.json["content"])) == (409, body)
        bad: Any
        for bad in ({}, {"selectedTools": "say"}, {"selectedTools": [], "toolDescriptions": []}, [], b"{"):
            assert (await admin.post(f"{base}/config/b", bad)).status == 400, bad
        assert (await admin.ask("DELETE", f"{base}/config/日常 1")).json["status"] == "success"
        for method in ("GET", "DELETE"):
            assert (await admin.ask(method, f"{base}/config/日常 1")).status == 404
        admin.write("ToolConfigs/half.json", "{")
        assert (await admin.get(f"{base}/config/half")).status == 400

    run(main())


def test_no_name_leads_out_of_the_folders(tmp_path: Path) -> None:
    """8.1 BUG: encoded slashes, dots, NUL, links."""
    admin = Writer(tmp_path)
    admin.write("x.json", "{}")
    admin.write("x.txt", "secret")
    (tmp_path / "ToolConfigs").mkdir()
    (tmp_path / "ToolConfigs" / "link.json").symlink_to(tmp_path / "x.json")
    (tmp_path / "TVStxt" / "link.txt").symlink_to(tmp_path / "x.txt")
    body: dict[str, Any] = {"selectedTools": [], "toolDescriptions": {}}

    async def main() -> None:
        for name in OUTSIDE:
            for method, path in (
                ("GET", "config"),
                ("DELETE", "config"),
                ("POST", "config"),
                ("GET", "check-file"),
                ("POST", "export"),
            ):
                data = json.dumps(body).encode() if method == "POST" else b""
                answer = await admin.ask(method, f"/admin_api/tool-list-editor/{path}/{name}", data=data)
                assert answer.status in (400, 404), (method, path, name, answer.body)
        assert (tmp_path / "x.txt").read_text() == "secret"
        assert (tmp_path / "x.json").read_text() == "{}"

    run(main())


def test_an_export_is_numbered_text_with_crlf(tmp_path: Path) -> None:
    """8.2: plugins by name and numbered, one-tool plugins flat, others 1.1, 1.2; header and examples as asked."""
    admin = admin_with_plugins(tmp_path)

    async def main() -> None:
        base = "/admin_api/tool-list-editor"
        body = {
            "selectedTools": ["say", "open"],
            "toolDescriptions": {"open": "Own\nwords.", "ZLast::say": "只说。"},
            "includeHeader": False,
            "includeExamples": True,
        }
        assert (await admin.get(f"{base}/check-file/Tools")).json == {"exists": False}
        answer = await admin.post(f"{base}/export/Tools", body)
        assert answer.json == {"status": "success", "filePath": "TVStxt/Tools.txt"}
        expected = [
            "1. 显示AFirst (AFirst)",
            "1.1 open",
            "  Own",
            "  words.",
            "1.2 say",
            "  Says.",
            "  调用示例:",
            "  X",
            "",
            "2. 显示ZLast (ZLast)",
            "只说。",
            "调用示例:",
            "E1",
            "E2",
            "",
        ]
        text = (tmp_path / "TVStxt/Tools.txt").read_bytes().decode()
        assert text == "\r\n".join(expected)
        check = await admin.get(f"{base}/check-file/Tools")
        assert check.json == {"exists": True}
        plain = {**body, "includeHeader": True, "includeExamples": False, "selectedTools": ["ZLast::say"]}
        preview = (await admin.post("/admin_api/panel/tool-list-preview", plain)).json["text"]
        assert preview.split("\r\n")[2:] == ["1. 显示ZLast (ZLast)", "只说。", ""]
        assert (await admin.post(f"{base}/export/Tools", {**plain, "expected": "0"})).status == 409
        assert (await admin.post(f"{base}/export/Tools", {**plain, "expected": check.headers["etag"]})).status == 200

    run(main())
