"""The pages of plugins: list, one of them, its texts and settings, trying a tool; hostile values are text."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from app.extend import CallFinished, Door
from app.plugins.manifest import BLOCKED_NAME
from app.plugins.person_files import TEXTS_NAME
from tests.server import ECHO, write_plugin
from tests.waiting import until
from tests.web.panel.browsing import HOSTILE, LOGIN, Page, browsing, hidden

SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "what to say"},
        "count": {"type": "integer", "default": 2},
        "loud": {"type": "boolean"},
        "voice": {"enum": ["high", "low"]},
        "more": {"type": "object"},
    },
}
SAYS = """
import json, sys
print(json.dumps({"status": "success", "result": json.loads(sys.stdin.read())}))
"""


def says(home: Path, name: str = "Says", **fields: Any) -> Path:
    commands = [
        {"commandIdentifier": "Say", "command": "say", "description": "says it", "parameters": SCHEMA, "typed": True}
    ]
    return write_plugin(home, name, SAYS, capabilities={"invocationCommands": commands}, **fields)


def test_the_list_shows_state_source_and_calls_and_is_filtered(tmp_path: Path) -> None:
    says(tmp_path)
    write_plugin(tmp_path, "Broken", "raise SystemExit('no')")
    write_plugin(
        tmp_path,
        "NodeOnly",
        "",
        pluginType="service",
        entryPoint={"type": "nodejs", "script": "x.js"},
        communication={"protocol": "direct"},
    )

    async def test(page: Page) -> None:
        await page.server.client.post("/AdminPanel/plugin-try/Broken", headers=LOGIN, data={"way": "Broken"})
        english, chinese = await page.get("/plugins"), await page.get("/plugins", "zh-CN")
        assert english.status_code == chinese.status_code == 200
        assert "Plugins and tools" in english.text and "插件与工具" in chinese.text
        assert len(english.content) < 300_000
        (row,) = re.findall(r'<tr id="plugin-row-[0-9a-f]+">(?:(?!</tr>).)*>Broken<.*?</tr>', english.text, re.DOTALL)
        assert row.count('<td class="num">1</td>') == 2, "one call, one failure"
        piece = await page.get("/plugins?state=elsewhere", **{"HX-Request": "true"})
        assert "NodeOnly" in piece.text and "Says" not in piece.text and "<html" not in piece.text
        assert "SciCalculator" in (await page.get("/plugins?source=program")).text
        assert "Says" not in (await page.get("/plugins?source=program")).text
        nothing = await page.get(f"/plugins?q={HOSTILE}")
        assert (
            "Nothing matches" in nothing.text
            and "<script>alert" not in nothing.text
            and "<img src=x" not in nothing.text
        )

    browsing(tmp_path, test)


def test_five_hundred_plugins_are_shown_page_by_page(tmp_path: Path) -> None:
    for number in range(500):
        write_plugin(tmp_path, f"P{number:03d}", "")

    async def test(page: Page) -> None:
        first, last = await page.get("/plugins?q=P&source=home"), await page.get("/plugins?q=P&source=home&page=99")
        assert "P000" in first.text and "P499" not in first.text and "1 / 5" in first.text
        assert "P499" in last.text and len(first.content) < 300_000

    browsing(tmp_path, test)


def test_a_plugin_is_switched_on_its_page_and_in_the_list(tmp_path: Path) -> None:
    folder = says(tmp_path)

    async def test(page: Page) -> None:
        answer = await page.post("/plugin-switch/Says", {"enable": "false"})
        assert answer.headers["HX-Refresh"] == "true" and (folder / BLOCKED_NAME).exists()
        assert "Switch on" in (await page.get("/plugins/Says")).text
        row = await page.post("/plugin-switch/Says", {"enable": "true"}, **{"HX-Target": "plugin-row-1"})
        assert row.text.startswith("<tr id=") and "Switch off" in row.text
        row = await page.post("/plugin-switch/Says", {"enable": "false"}, **{"HX-Target": "plugin-row-1"})
        assert row.text.startswith("<tr id=") and "Switch on" in row.text and ">off<" in row.text
        assert (await page.post("/plugin-switch/Nobody", {"enable": "true"})).status_code == 404
        assert (await page.post("/plugin-switch/Says", {"enable": "x"})).headers["HX-Retarget"] == "#notices"

    browsing(tmp_path, test)


@pytest.mark.parametrize("tab", ["overview", "texts", "settings", "file", "try", "log"])
def test_hostile_words_of_a_manifest_are_text_on_every_tab(tmp_path: Path, tab: str) -> None:
    """What a plugin says of itself never becomes a part of the page."""
    name = "Bad <script>alert(3)</script>"
    commands = [
        {
            "commandIdentifier": HOSTILE,
            "description": HOSTILE,
            "example": HOSTILE,
            "parameters": {
                "type": "object",
                "properties": {
                    HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE, "enum": [HOSTILE]}
                },
            },
        }
    ]
    folder = write_plugin(
        tmp_path,
        "Bad",
        SAYS,
        displayName=HOSTILE,
        description=HOSTILE,
        author=HOSTILE,
        version=HOSTILE,
        capabilities={"invocationCommands": commands},
        configSchema={"A_B": {"type": "string", "description": HOSTILE, "default": HOSTILE}},
    )
    manifest = folder / "plugin-manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"name": "Bad"', f'"name": "{name}"'), encoding="utf-8")
    (folder / "config.env").write_text(f"A_B='{HOSTILE}'\n", encoding="utf-8")

    async def test(page: Page) -> None:
        listed = await page.get("/plugins")
        (address,) = set(re.findall(r'href="/AdminPanel(/plugins/Bad[^"]*)"', listed.text))
        for language in ("en", "zh"):
            shown = await page.get(f"{address}?tab={tab}", language)
            assert shown.status_code == 200 and "alert(1)" in shown.text
            for text in (shown.text, listed.text):
                assert "<script>alert" not in text and "<img src=x" not in text and 'onerror=alert(1)>"' not in text

    browsing(tmp_path, test)


def test_texts_are_previewed_saved_and_a_conflict_shows_both(tmp_path: Path) -> None:
    folder = says(tmp_path)

    async def test(page: Page) -> None:
        shown = await page.get("/plugins/Says?tab=texts")
        version = hidden(shown.text, "version")
        assert "- Says (Says) - 命令: say:" in shown.text
        preview = await page.post("/plugin-preview/Says", {"command": "Say", "text": "says <b>more</b>"})
        assert "says &lt;b&gt;more&lt;/b&gt;" in preview.text
        assert "<b>more" not in (folder / "plugin-manifest.json").read_text("utf-8")
        saved = await page.post("/plugin-describe/Says", {"command": "Say", "text": "a\r\nb", "version": version})
        assert "Saved" in saved.text and hidden(saved.text, "version") != version
        assert page.server.services.router.specs()["Says"].commands[0].description == "a\nb"
        late = await page.post("/plugin-describe/Says", {"command": "Say", "text": "mine", "version": version})
        assert "a\nb</textarea>" in late.text and "mine</textarea>" in late.text
        assert page.server.services.router.specs()["Says"].commands[0].description == "a\nb"
        again = {"command": "Say", "text": "mine", "version": hidden(late.text, "version")}
        assert "Saved" in (await page.post("/plugin-describe/Says", again)).text
        assert page.server.services.router.specs()["Says"].commands[0].description == "mine"

    browsing(tmp_path, test)


def test_settings_are_a_form_of_the_manifests_keys_and_only_what_changed_is_written(tmp_path: Path) -> None:
    """D84: secrets are password fields; comments and other keys stay; an empty field takes a key away."""
    folder = says(
        tmp_path, configSchema={"Some_KEY": "string", "Size": {"type": "integer", "default": 7}, "Old": "string"}
    )
    before = "# mine\nSome_KEY=hidden-value # note\nOther=1\nOld=x\n"
    (folder / "config.env").write_text(before, encoding="utf-8")

    async def test(page: Page) -> None:
        shown = await page.get("/plugins/Says?tab=settings")
        assert re.search(r'name="set:Some_KEY" type="password"', shown.text) and 'placeholder="7"' in shown.text
        version = hidden(shown.text, "version")
        form = {"set:Some_KEY": "hidden-value", "set:Size": "9", "set:Old": "", "version": version, "set:Other": "2"}
        saved = await page.post("/plugin-settings/Says", form)
        assert "Saved" in saved.text
        now = (folder / "config.env").read_text("utf-8")
        assert "# mine\nSome_KEY=hidden-value # note\nOther=1\n" in now and "Size=9" in now and "Old=" not in now
        late = await page.post("/plugin-settings/Says", {**form, "set:Size": "11"})
        assert "changed meanwhile" in late.text and 'value="11"' in late.text, "what was filled in is still there"
        assert "Size=9" in (folder / "config.env").read_text("utf-8")

    browsing(tmp_path, test)


def test_settings_of_a_plugin_of_the_program_go_into_the_home(tmp_path: Path) -> None:
    async def test(page: Page) -> None:
        shown = await page.get("/plugins/SciCalculator?tab=texts")
        form = {"command": "", "text": "mine", "version": hidden(shown.text, "version")}
        assert "Saved" in (await page.post("/plugin-describe/SciCalculator", form)).text
        assert (tmp_path / "Plugin/SciCalculator" / TEXTS_NAME).is_file()
        assert str(tmp_path) in (await page.get("/plugins/SciCalculator")).text

    browsing(tmp_path, test)


def test_a_tool_is_tried_with_a_form_made_of_its_schema(tmp_path: Path) -> None:
    """D5 and D66: values get the types of the schema; the call comes in by the door ``panel`` and is logged as such."""
    says(tmp_path)

    async def test(page: Page) -> None:
        shown = await page.get("/plugins/Says?tab=try")
        assert 'type="number" step="any" value="2"' in shown.text and "<option >high</option>" in shown.text
        form = [
            ("way", "Says"),
            ("arg:text", "<b>hi</b>"),
            ("arg:count", "3"),
            ("arg:loud", "true"),
            ("arg:voice", ""),
            ("arg:more", '{"a": [1]}'),
        ]
        ran = await page.post("/plugin-try/Says", form)
        assert "success" in ran.text and "&lt;b&gt;hi&lt;/b&gt;" in ran.text and "<b>hi" not in ran.text
        (finished,) = [event for event in page.server.events if isinstance(event, CallFinished)]
        assert finished.context.door is Door.PANEL and finished.context.client_ip == "127.0.0.1"
        assert finished.result.structured is not None
        assert "&#34;count&#34;: 3" in ran.text and "&#34;loud&#34;: true" in ran.text and "voice" not in ran.text
        assert (await page.post("/plugin-try/Says", [("way", "SciCalculator")])).status_code == 404, "not of this page"

    browsing(tmp_path, test)


def test_a_tool_without_a_schema_starts_with_its_example(tmp_path: Path) -> None:
    example = (
        "<<<[TOOL_REQUEST]>>>\ntool_name:「始」Echo「末」,\ntext:「始」example text「末」\n<<<[END_TOOL_REQUEST]>>>"
    )
    commands = [{"command": "e", "description": "d", "example": example}]
    write_plugin(tmp_path, "Echo", ECHO, capabilities={"invocationCommands": commands})

    async def test(page: Page) -> None:
        shown = await page.get("/plugins/Echo?tab=try")
        assert 'name="name" value="text"' in shown.text and "example text</textarea>" in shown.text
        pairs = [("way", "Echo"), ("name", "text"), ("value", "hello"), ("name", ""), ("value", "")]
        assert "hello" in (await page.post("/plugin-try/Echo", pairs)).text
        lost = await page.post("/plugin-try/Echo", [("way", "Echo"), ("name", ""), ("value", "x")])
        assert lost.status_code == 400 and lost.headers["HX-Retarget"] == "#notices"

    browsing(tmp_path, test)


def test_pictures_are_shown_and_other_addresses_are_only_text(tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg onload=alert(1)>"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    script = f"import json\nprint(json.dumps({{'status': 'success', 'result': {{'content': {parts!r}}}}}))"
    write_plugin(tmp_path, "Pic", script)

    async def test(page: Page) -> None:
        ran = (await page.post("/plugin-try/Pic", [("way", "Pic")])).text
        assert '<img src="data:image/png;base64,iVBORw0KGgo="' in ran and ran.count("<img") == 1
        assert "href=" not in ran and "<svg" not in ran and "https://example.com/a.png" in ran

    browsing(tmp_path, test)


def test_a_call_that_fails_says_why_and_secrets_are_masked(tmp_path: Path) -> None:
    """The server's own keys are taken out of results and errors (D84)."""
    script = "import sys\nsys.stderr.write('key upstream-key-long-enough at fault')\nsys.exit(3)"
    write_plugin(tmp_path, "Fails", script)

    async def test(page: Page) -> None:
        ran = (await page.post("/plugin-try/Fails", [("way", "Fails")])).text
        assert "it could not run" in ran and "at fault" in ran and "upstream-key-long-enough" not in ran
        overview = (await page.get("/plugins/Fails")).text
        assert "Last errors" in overview and "at fault" in overview and "upstream-key-long-enough" not in overview

    browsing(tmp_path, test, "API_Key=upstream-key-long-enough")


def test_the_code_is_asked_for_at_this_door_too(tmp_path: Path) -> None:
    says(tmp_path)

    async def test(page: Page) -> None:
        assert 'name="tool_password"' in (await page.get("/plugins/Says?tab=try")).text
        form = [("way", "Says"), ("arg:text", "x"), ("tool_password", "000000")]
        assert "refused" in (await page.post("/plugin-try/Says", form)).text

    browsing(tmp_path, test, "VCPToolCode=true")


def test_a_call_that_waits_for_approval_runs_when_a_person_says_yes(tmp_path: Path) -> None:
    says(tmp_path)
    (tmp_path / "toolApprovalConfig.json").write_text('{"enabled": true, "approveAll": true}')

    async def test(page: Page) -> None:
        calling = asyncio.ensure_future(page.post("/plugin-try/Says", [("way", "Says"), ("arg:text", "waited")]))
        approvals = page.server.services.approvals
        await until(lambda: bool(approvals.pending()))
        approvals.answer(approvals.pending()[0].id, True, by="test")
        assert "waited" in (await calling).text

    browsing(tmp_path, test)


def test_a_static_plugin_shows_its_values_and_runs_when_asked(tmp_path: Path) -> None:
    write_plugin(
        tmp_path,
        "Weather",
        "print('sunny <b>')",
        pluginType="static",
        refreshIntervalCron="0 0 * * *",
        capabilities={"systemPromptPlaceholders": [{"placeholder": "{{VCPWeather}}"}]},
    )

    async def test(page: Page) -> None:
        assert "No value yet" in (await page.get("/plugins/Weather")).text
        assert (await page.post("/plugin-run/Weather")).headers["HX-Refresh"] == "true"
        shown = (await page.get("/plugins/Weather")).text
        assert "sunny &lt;b&gt;" in shown and "{{VCPWeather}}" in shown and "0 0 * * *" in shown
        assert (await page.post("/plugin-run/Nobody")).status_code == 404

    browsing(tmp_path, test)


def test_the_search_of_the_panel_finds_plugins_and_unknown_pages_say_so(tmp_path: Path) -> None:
    says(tmp_path)

    async def test(page: Page) -> None:
        assert "/AdminPanel/plugins/Says" in (await page.get("/search?q=says", **{"HX-Request": "true"})).text
        missing = await page.get("/plugins/Nobody")
        assert missing.status_code == 404 and "not found" in missing.text
        assert (await page.server.client.get("/AdminPanel/plugins", headers={"Authorization": ""})).status_code != 200

    browsing(tmp_path, test)
