"""Pages of Tavern presets, preprocessors, tool lists and AgentAssistant: states, both languages, hostile values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.server import Running, run, running
from tests.web.admin.writing import Writer

ADMIN = ("AdminUsername=admin", "AdminPassword=secret-password")
AUTH = ("admin", "secret-password")
HOSTILE = '"><script>alert(1)</script>'


async def shown(server: Running, path: str, language: str = "en") -> str:
    answer = await server.client.get(f"/AdminPanel/{path}", auth=AUTH, headers={"Accept-Language": language})
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    return answer.text


def test_pages_say_in_both_languages_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "Plugin" / "VCPTavern" / "presets").mkdir(parents=True)
    (tmp_path / "Plugin" / "VCPTavern" / "presets" / "oc.json").write_text("{}")

    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=ADMIN) as server:
            for path, english, chinese in (
                ("tavern", "Choose a preset", "选择一个预设"),
                ("tavern?preset=oc", "Add a rule", "添加规则"),
                ("preprocessors", "before variables", "变量之前"),
                ("tool-lists", "Choose tools", "挑选工具"),
                ("agent-assistant", "Add an agent", "添加 Agent"),
            ):
                assert english in await shown(server, path)
                assert chinese in await shown(server, path, "zh")
            assert 'data-new=""' in await shown(server, "tavern?preset=oc")
            assert 'data-new="yes"' in await shown(server, "tavern?preset=" + quote(HOSTILE))
            await shown(server, "tool-lists?config=" + quote(HOSTILE))
            order = re.findall(r'data-row data-name="([^"]+)"', await shown(server, "preprocessors"))
            assert order[0] == "VCPTavern"
            assert "ImageProcessor" in order

    run(main())


def test_a_page_whose_plugin_is_off_says_how_to_enable_it(tmp_path: Path) -> None:
    folder = tmp_path / "Plugin" / "VCPTavern"
    folder.mkdir(parents=True)
    manifest = {"name": "VCPTavern", "pluginType": "hybridservice", "entryPoint": {"script": "x.py"}}
    (folder / "plugin-manifest.json.block").write_text(json.dumps(manifest))
    admin = Writer(tmp_path)

    async def main() -> None:
        text = (await admin.get("/AdminPanel/tavern", ("accept-language", "en"))).body.decode()
        assert "The plugin VCPTavern is switched off" in text
        assert 'href="/AdminPanel/plugins"' in text
        none = (await admin.get("/AdminPanel/preprocessors", ("accept-language", "en"))).body.decode()
        assert "No preprocessor is enabled" in none
        assistant = (await admin.get("/AdminPanel/agent-assistant", ("accept-language", "en"))).body.decode()
        assert "The plugin AgentAssistant is not installed" in assistant

    run(main())


def test_presets_are_saved_by_version_and_tried_on_a_conversation(tmp_path: Path) -> None:
    """D77: presets of the panel are ordered as listed; the second of two people is told, and nothing is lost."""

    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=ADMIN) as server:

            async def call(method: str, path: str, body: Any = None, expected: str | None = None) -> Any:
                headers = {} if expected is None else {"If-Match": f'"{expected}"'}
                url = f"/admin_api/vcptavern{path}"
                return await server.client.request(method, url, json=body, headers=headers, auth=AUTH)

            rule = {"enabled": True, "type": "relative", "position": "before", "target": "last_user"}
            preset = {"order": "list", "rules": [rule | {"content": {"role": "system", "content": "X"}}]}
            made = await call("POST", "/presets/oc", preset, "")
            assert (made.status_code, made.json()) == (200, {"message": "Preset saved", "name": "oc"})
            assert (await call("POST", "/presets/oc", preset, "")).status_code == 409
            read = await call("GET", "/presets/oc")
            version = read.headers["etag"].strip('"')
            assert (read.json(), made.headers["etag"].strip('"')) == (preset, version)
            assert (await call("POST", "/presets/oc", preset | {"a": 1}, version)).status_code == 200
            late = await call("POST", "/presets/oc", preset | {"b": 2}, version)
            assert late.status_code == 409
            assert json.loads(late.json()["content"]) == preset | {"a": 1}
            assert (await call("POST", "/presets/oc", preset)).status_code == 200

            folder = tmp_path / ".vcp" / "plugins" / "VCPTavern" / "presets"
            (folder / "of mine.json").write_text(json.dumps(preset))
            mine = (await call("GET", "/presets/of mine")).headers["etag"].strip('"')
            assert (await call("POST", "/presets/of mine", preset | {"c": 3}, mine)).json()["name"] == "of mine"
            assert (await call("POST", "/presets/of mine", preset)).json()["name"] == "ofmine"

            embed = {"enabled": True, "type": "embed", "position": "after", "target": "system", "content": "E"}
            messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "u"}]
            tried = await call(
                "POST", "/preview", {"preset": {"rules": [*preset["rules"], embed]}, "messages": messages}
            )
            assert tried.json() == {
                "messages": [
                    {"role": "system", "content": "S\n\nE", "state": "changed"},
                    {"role": "system", "content": "X", "state": "added"},
                    {"role": "user", "content": "u", "state": "kept"},
                ]
            }
            bad: Any
            for bad in ({}, {"preset": []}, {"preset": {}, "messages": [1]}, {"preset": {}, "messages": [{}] * 101}):
                assert (await call("POST", "/preview", bad)).status_code == 400, bad
            assert not (tmp_path / ".vcp" / "plugins" / "VCPTavern" / "chat_times.json").exists()
            assert (await server.client.post("/admin_api/vcptavern/preview", json={})).status_code in (401, 403)

    run(main())
