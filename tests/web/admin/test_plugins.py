"""Plugins for administrators (vcp-core 8.2; D84): shapes, switching, texts, settings, two writers."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.extend import ToolCommand, ToolSpec
from app.plugins.manifest import BLOCKED_NAME, MANIFEST_NAME
from app.plugins.manifest_view import far_manifest
from app.plugins.person_files import TEXTS_NAME
from tests.server import ECHO, write_plugin
from tests.web.admin.administrators import Administrator, administrator

COMMANDS = {
    "invocationCommands": [
        {"commandIdentifier": "SayIt", "command": "say", "description": "says it", "example": "x"},
        {"command": "shout", "description": "shouts"},
    ]
}
SHIPPED = "SciCalculator"


def echo(home: Path, name: str = "Echo", **fields: Any) -> Path:
    return write_plugin(home, name, ECHO, capabilities=COMMANDS, **fields)


def files(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if ".vcp" not in path.parts)


async def listed(admin: Administrator, name: str) -> Any:
    answer = await admin.get("/plugins")
    assert answer.status == 200 and isinstance(answer.json, list)
    return next((one for one in answer.json if one["name"] == name), None)


def test_plugins_are_listed_with_full_manifests_and_secrets_are_masked(tmp_path: Path) -> None:
    """8.2 and D84: the editor's text is true, what is only looked at is masked; unknown fields of manifests stay."""
    folder = echo(
        tmp_path,
        configSchema={"My_API_KEY": {"type": "string", "default": "built-in-secret"}, "Size": "integer"},
        ownField={"x": [1]},
    )
    (folder / "config.env").write_text("My_API_KEY=very-secret\nSize=7\n", encoding="utf-8")
    write_plugin(tmp_path, "Off", ECHO)
    (tmp_path / "Plugin/Off" / MANIFEST_NAME).rename(tmp_path / "Plugin/Off" / BLOCKED_NAME)

    async def test(admin: Administrator) -> None:
        answer = (await admin.get("/plugins")).json
        one = next(item for item in answer if item["name"] == "Echo")
        assert set(one) == {"name", "manifest", "enabled", "configEnvContent", "isDistributed", "serverId"}
        assert one["enabled"] is True and one["isDistributed"] is False and one["serverId"] is None
        assert one["configEnvContent"] == "My_API_KEY=very-secret\nSize=7\n"
        manifest = one["manifest"]
        assert manifest["pluginSpecificEnvConfig"] == {"My_API_KEY": "***", "Size": "7", "DebugMode": "false"}
        assert manifest["basePath"] == str(folder.resolve()) and manifest["ownField"] == {"x": [1]}
        assert "secret" not in json.dumps(manifest) and manifest["configSchema"]["My_API_KEY"]["default"] == "***"
        assert answer[-1]["name"] == "Off" and answer[-1]["enabled"] is False, "switched off ones come last"
        assert answer[-1]["configEnvContent"] is None
        assert any(item["name"] == SHIPPED and item["enabled"] for item in answer)

    administrator(tmp_path, test)


def test_a_tool_of_a_node_is_told_as_a_manifest_without_folders() -> None:
    """8.2: remote plugins are in the same array; what a node sent of folders and settings is not kept."""
    spec = ToolSpec("Far", "node:box", "Far tool", (ToolCommand("a", "do", "does", parameters={"type": "object"}),))
    told = far_manifest(spec, "box")
    assert told["isDistributed"] is True and told["serverId"] == "box" and told["displayName"] == "Far tool"
    assert told["capabilities"]["invocationCommands"] == [
        {"commandIdentifier": "a", "command": "do", "description": "does", "parameters": {"type": "object"}}
    ]
    assert "basePath" not in told and "pluginSpecificEnvConfig" not in told


def test_a_plugin_is_switched_off_and_on_by_the_name_of_its_manifest(tmp_path: Path) -> None:
    """8.2: the manifest is renamed; the messages are kept to the letter; the change holds when the answer comes."""
    folder = echo(tmp_path)

    async def test(admin: Administrator) -> None:
        async def toggle(enable: bool) -> str:
            answer = await admin.post("/plugins/Echo/toggle", {"enable": enable})
            assert answer.status == 200
            return str(answer.json["message"])

        assert await toggle(True) == "插件 Echo 已经是启用状态。"
        assert await toggle(False) == "插件 Echo 已禁用。"
        assert (folder / BLOCKED_NAME).is_file() and not (folder / MANIFEST_NAME).exists()
        assert "Echo" not in admin.services.router.specs() and not (await listed(admin, "Echo"))["enabled"]
        assert await toggle(False) == "插件 Echo 已经是禁用状态。"
        assert await toggle(True) == "插件 Echo 已启用。"
        assert (folder / MANIFEST_NAME).is_file() and "Echo" in admin.services.router.specs()

    administrator(tmp_path, test)


def test_a_plugin_of_the_program_is_switched_off_in_the_home(tmp_path: Path) -> None:
    """The program's folder may be read-only and belongs to the next version: nothing in it is touched."""

    async def test(admin: Administrator) -> None:
        found = next(plugin for plugin in admin.services.found_plugins.plugins if plugin.name == SHIPPED)
        before = {path: path.stat().st_mtime_ns for path in found.folder.iterdir()}
        assert (await admin.post(f"/plugins/{SHIPPED}/toggle", {"enable": False})).status == 200
        assert SHIPPED not in admin.services.router.specs() and not (await listed(admin, SHIPPED))["enabled"]
        assert (tmp_path / "Plugin" / SHIPPED / BLOCKED_NAME).is_file()
        assert (await admin.post(f"/plugins/{SHIPPED}/toggle", {"enable": True})).status == 200
        assert SHIPPED in admin.services.router.specs()
        assert not (tmp_path / "Plugin" / SHIPPED).exists(), "nothing is left that would shadow it"
        assert before == {path: path.stat().st_mtime_ns for path in found.folder.iterdir()}

    administrator(tmp_path, test)


def test_settings_and_texts_of_a_plugin_of_the_program_are_kept_in_the_home_even_while_it_is_off(
    tmp_path: Path,
) -> None:
    async def test(admin: Administrator) -> None:
        base = f"/plugins/{SHIPPED}"
        one = await listed(admin, SHIPPED)
        command = one["manifest"]["capabilities"]["invocationCommands"][0]
        word = command.get("commandIdentifier") or command["command"]
        assert (await admin.post(f"{base}/description", {"description": "我的计算器"})).status == 200
        assert (await admin.post(f"{base}/commands/{word}/description", {"description": "算"})).status == 200
        assert (await admin.post(f"{base}/config", {"content": "DebugMode=true\n"})).status == 200
        for enable in (False, True):
            assert (await admin.post(f"{base}/toggle", {"enable": enable})).status == 200
        one = await listed(admin, SHIPPED)
        assert one["manifest"]["description"] == "我的计算器" and one["configEnvContent"] == "DebugMode=true\n"
        assert one["manifest"]["capabilities"]["invocationCommands"][0]["description"] == "算"
        assert admin.services.router.specs()[SHIPPED].commands[0].description == "算", "models are told so"
        assert one["manifest"]["pluginSpecificEnvConfig"]["DebugMode"] == "true"
        folder = tmp_path / "Plugin" / SHIPPED
        assert sorted(path.name for path in folder.iterdir()) == ["config.env", TEXTS_NAME]

    administrator(tmp_path, test)


def test_descriptions_are_written_into_the_manifest_and_nothing_else_changes(tmp_path: Path) -> None:
    """8.2: rewritten as JSON with two blanks; a command is named by commandIdentifier or command."""
    folder = echo(tmp_path, ownField="stays")

    async def test(admin: Administrator) -> None:
        before = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
        assert (await admin.post("/plugins/Echo/description", {"description": "新的"})).json["message"]
        for command, index in (("SayIt", 0), ("say", 0), ("shout", 1)):
            answer = await admin.post(f"/plugins/Echo/commands/{command}/description", {"description": f"by {command}"})
            assert answer.status == 200
            text = (folder / MANIFEST_NAME).read_text("utf-8")
            now = json.loads(text)
            assert now["capabilities"]["invocationCommands"][index]["description"] == f"by {command}"
            assert text.startswith('{\n  "')
        now["description"], now["capabilities"] = before.get("description"), before["capabilities"]
        assert {key: value for key, value in now.items() if value is not None} == before
        assert admin.services.router.specs()["Echo"].commands[1].description == "by shout"

    administrator(tmp_path, test)


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/plugins/Nobody/toggle", {"enable": True}, 404, "Plugin 'Nobody' not found."),
        ("/plugins/Nobody/description", {"description": "x"}, 404, "Plugin 'Nobody' not found."),
        ("/plugins/Nobody/config", {"content": "x"}, 404, "Plugin 'Nobody' not found."),
        ("/plugins/Nobody/commands/a/description", {"description": "x"}, 404, "Plugin 'Nobody' not found."),
        ("/plugins/Echo/commands/a/description", {"description": "x"}, 404, "Command 'a' not found."),
        ("/plugins/Echo/toggle", {"enable": "yes"}, 400, "enable"),
        ("/plugins/Echo/toggle", {}, 400, "enable"),
        ("/plugins/Echo/description", {"description": 5}, 400, "description"),
        ("/plugins/Echo/config", {"content": None}, 400, "content"),
        ("/plugins/Echo/config", [], 400, "JSON"),
        ("/plugins/Echo/config", b"{", 400, "JSON"),
        ("/plugins/Echo/config", b'{"content":"' + b"x" * (6 * 1024 * 1024) + b'"}', 413, ""),
        ("/plugins/Echo/commands/say/description", {"description": "x" * 200_001}, 400, "200000"),
        ("/plugins/..%2F..%2Fetc/config", {"content": "x"}, 404, ""),
        ("/plugins/%2E%2E/config", {"content": "x"}, 404, ""),
        ("/plugins/a%00b/config", {"content": "x"}, 404, ""),
        ("/plugins/..%5C..%5Cx/config", {"content": "x"}, 404, ""),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(
    tmp_path: Path, path: str, body: Any, status: int, said: str
) -> None:
    """Unknown names, wrong shapes, names that lead out of the folder: an error in both languages, no file."""
    echo(tmp_path)

    async def test(admin: Administrator) -> None:
        before = files(tmp_path)
        answer = await admin.post(path, body)
        assert answer.status == status and said in answer.json["error"]
        assert status == 413 or any("\u4e00" <= mark <= "\u9fff" for mark in answer.json["error"])
        assert files(tmp_path) == before

    administrator(tmp_path, test)


def test_names_may_be_encoded_and_in_any_script(tmp_path: Path) -> None:
    echo(tmp_path, "回声 100%")

    async def test(admin: Administrator) -> None:
        answer = await admin.post("/plugins/%E5%9B%9E%E5%A3%B0%20100%25/toggle", {"enable": False})
        assert answer.json["message"] == "插件 回声 100% 已禁用。"

    administrator(tmp_path, test)


def test_of_two_people_who_edit_a_settings_file_the_second_is_told(tmp_path: Path) -> None:
    """Nothing is overwritten unseen; who does not say what was read writes as ever."""
    folder = echo(tmp_path)

    async def test(admin: Administrator) -> None:
        assert (await admin.get("/plugins/Echo/config")).status == 404
        first = await admin.post("/plugins/Echo/config", {"content": "A=1\n", "expected": ""})
        assert first.status == 200
        read = await admin.get("/plugins/Echo/config")
        version = read.headers["etag"].strip('"')
        assert version == hashlib.sha256(b"A=1\n").hexdigest() and first.headers["etag"] == read.headers["etag"]
        assert (await admin.post("/plugins/Echo/config", {"content": "A=2\n", "expected": version})).status == 200
        late = await admin.post("/plugins/Echo/config", {"content": "A=3\n"}, ("if-match", f'"{version}"'))
        assert late.status == 409 and late.json["content"] == "A=2\n"
        assert (folder / "config.env").read_text("utf-8") == "A=2\n"
        assert (await admin.post("/plugins/Echo/config", {"content": "A=4\n"})).status == 200

    administrator(tmp_path, test)


def test_a_folder_that_holds_another_plugin_is_left_alone(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, SHIPPED, ECHO)
    raw = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
    (folder / MANIFEST_NAME).write_text(json.dumps({**raw, "name": "Other"}), encoding="utf-8")

    async def test(admin: Administrator) -> None:
        answer = await admin.post(f"/plugins/{SHIPPED}/toggle", {"enable": False})
        assert answer.status == 409 and "Other" in answer.json["error"]
        assert (await admin.post(f"/plugins/{SHIPPED}/config", {"content": ""})).status == 409
        assert sorted(path.name for path in folder.iterdir()) == ["main.py", MANIFEST_NAME]

    administrator(tmp_path, test)


def test_a_full_disk_is_told_and_the_plugin_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    echo(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    async def test(admin: Administrator) -> None:
        monkeypatch.setattr(os, "fsync", full)
        answer = await admin.post("/plugins/Echo/config", {"content": "A=1"})
        monkeypatch.undo()
        assert answer.status == 500 and "No space left" in answer.json["error"]
        assert (await admin.get("/plugins/Echo/config")).status == 404

    administrator(tmp_path, test)


def test_the_order_of_preprocessors_is_told_and_changed(tmp_path: Path) -> None:
    """8.2: GET and POST of ``/preprocessors/order``, with the error shape of this route."""

    async def test(admin: Administrator) -> None:
        async with admin.services.running_parts():
            answer = (await admin.get("/preprocessors/order")).json
            names = [one["name"] for one in answer["order"]]
            assert answer["status"] == "success" and len(names) > 1
            assert set(answer["order"][0]) == {"name", "displayName", "description"}
            changed = await admin.post("/preprocessors/order", {"order": [*reversed(names), "gone"]})
            assert changed.json["status"] == "success" and changed.json["newOrder"] == list(reversed(names))
            again = (await admin.get("/preprocessors/order")).json
            assert [one["name"] for one in again["order"]] == list(reversed(names))
            for wrong in ({"order": "x"}, {}, {"order": [1]}, b"nothing"):
                answered = await admin.post("/preprocessors/order", wrong)
                assert answered.status == 400 and answered.json["status"] == "error" and answered.json["message"]

    administrator(tmp_path, test)
