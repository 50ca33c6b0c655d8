"""The set-up assistant over HTTP: its steps, what can go wrong in each, and what is written at the end."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.config.dotenv import parse_values
from app.demo.upstream import create_demo
from app.reload.watcher import Pace
from app.web.server import serve
from tests.server import run
from tests.web.panel.visitor import HOSTILE, Visitor, visiting

FIRST = {"step": "upstream", "key": "new-secret-key", "name": "小克", "text": "你是小克。\r\n{{Date}}"}


def carried(text: str) -> dict[str, str]:
    """The hidden fields of the assistant's form."""
    form = text.split('id="setup"')[1]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return {html.unescape(name): html.unescape(value) for name, value in found}


async def step(visitor: Visitor, fields: dict[str, str], status: int = 200) -> str:
    answer = await visitor.post("/setup", fields, htmx=False)
    assert answer.status_code == status, answer.text[:500]
    return answer.text


def test_all_steps_write_config_agent_and_map_and_the_model_api_is_in_force(tmp_path: Path) -> None:
    async def test() -> None:
        async with serve(create_demo()) as upstream, visiting(tmp_path, pace=Pace()) as visitor:
            begun = await visitor.page("/setup")
            assert 'name="url"' in begun
            models = await step(visitor, {**FIRST, "url": f"{upstream}/v1"})
            assert "vcp-demo" in models
            assert "new-secret-key" in carried(models)["key"]
            agent = await step(visitor, {**carried(models), "model": "vcp-demo"})
            assert "你是小克。" in agent
            last = await step(visitor, {**carried(agent), "name": "小克", "text": "你是小克。\n"})
            assert "new-secret-key" not in last.split("config-diff")[1].split("</table>")[0]
            assert "Agent/小克.txt" in last
            assert "Variables of the operating system" not in last
            assert not (tmp_path / "Agent" / "小克.txt").exists()
            answer = await visitor.post("/setup", carried(last), htmx=False)
            assert answer.status_code == 303
            written = parse_values((tmp_path / "config.env").read_text(encoding="utf-8"))
            assert (written["API_URL"], written["API_Key"]) == (f"{upstream}/v1", "new-secret-key")
            assert written["AdminUsername"] == "admin"
            assert (tmp_path / "Agent" / "小克.txt").read_text(encoding="utf-8") == "你是小克。\n"
            assert json.loads((tmp_path / "agent_map.json").read_text(encoding="utf-8")) == {"小克": "小克.txt"}
            assert visitor.server.services.settings.api_url == f"{upstream}/v1"
            assert (await visitor.server.chat("What is 6*7?", model="vcp-demo")).status_code == 200
            done = await visitor.page(answer.headers["location"].removeprefix("/AdminPanel"))
            assert f"{visitor.server.url}/v1" in done
            assert "/AdminPanel/playground?model=vcp-demo&amp;agent=" in done
            assert "{{小克}}" in done
            assert "new-secret-key" not in done

    run(test())


def test_the_test_button_tells_models_or_what_is_wrong(tmp_path: Path) -> None:
    async def test() -> None:
        async with serve(create_demo()) as upstream, visiting(tmp_path) as visitor:
            answer = await visitor.post("/setup/test", {**FIRST, "url": upstream})
            assert (answer.status_code, "vcp-demo" in answer.text) == (200, True)
            answer = await visitor.post("/setup/test", {**FIRST, "url": "http://127.0.0.1:9"})
            assert "no connection" in answer.text
            assert "new-secret-key" not in answer.text

    run(test())


def test_a_failed_test_keeps_what_was_written_and_may_be_passed_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            fields = {**FIRST, "url": "http://127.0.0.1:9"}
            failed = await step(visitor, fields, 422)
            assert 'value="http://127.0.0.1:9"' in failed
            assert "Go on without a test" in failed
            model = await step(visitor, {**fields, "way": "skip"})
            assert "The connection was not tested" in model
            assert (await step(visitor, {**fields, "url": "nonsense", "way": "skip"}, 422)).count('role="alert"') == 1

    run(test())


def test_going_back_loses_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            told = {**FIRST, "url": "http://127.0.0.1:9", "model": "m", "models": "m\nn"}
            for at, before in (("write", "agent"), ("agent", "model"), ("model", "upstream")):
                text = await step(visitor, {**told, "step": at, "way": "back"})
                assert carried(text)["step"] == before
                everything = html.unescape(text)
                for value in ("http://127.0.0.1:9", "new-secret-key", "小克", "你是小克。"):
                    assert value in everything, (at, value)

    run(test())


@pytest.mark.parametrize("name", ["../x", "a/b", "{{x}}", "x" * 61])
def test_names_that_cannot_be_are_told_at_the_step_of_the_agent(tmp_path: Path, name: str) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            text = await step(visitor, {**FIRST, "step": "agent", "url": "http://127.0.0.1:9", "name": name}, 422)
            assert carried(text)["step"] == "agent"
            assert await step(visitor, {**FIRST, "step": "write", "url": "http://127.0.0.1:9", "name": name}, 409)

    run(test())


async def last_step(visitor: Visitor, **more: str) -> dict[str, str]:
    return carried(await step(visitor, {**FIRST, "step": "agent", "url": "http://127.0.0.1:7", **more}))


def test_the_proposed_text_takes_the_name_that_was_chosen_and_a_text_of_ones_own_stays(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            proposal = carried(await visitor.page("/setup"))["text"]
            assert "You are Nova" in proposal
            assert "You are Luna" in (await last_step(visitor, name="Luna", text=proposal))["text"]
            assert (await last_step(visitor, name="Luna", text="I am Nova."))["text"] == "I am Nova."

    run(test())


def test_an_agent_that_is_there_is_replaced_only_after_a_yes(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            (tmp_path / "Agent" / "小克.txt").write_text("theirs", encoding="utf-8")
            fields = await last_step(visitor)
            told = await step(visitor, fields, 409)
            assert "replace it by this one" in told
            assert (tmp_path / "Agent" / "小克.txt").read_text(encoding="utf-8") == "theirs"
            assert "127.0.0.1:7" not in (tmp_path / "config.env").read_text(encoding="utf-8")
            answer = await visitor.post("/setup", {**carried(told), "replace": "on"}, htmx=False)
            assert answer.status_code == 303
            assert (tmp_path / "Agent" / "小克.txt").read_text(encoding="utf-8").startswith("你是小克。")

    run(test())


def test_settings_that_the_environment_beats_are_told_before_they_are_written(tmp_path: Path) -> None:
    async def test() -> None:
        beaten = {"API_URL": "http://127.0.0.1:9"}
        async with visiting(tmp_path, environ=beaten, pace=Pace()) as visitor:
            told = await step(visitor, {**FIRST, "step": "agent", "url": "http://127.0.0.1:7"})
            assert "Variables of the operating system win" in told

    run(test())


def test_a_config_that_somebody_else_has_changed_is_shown_anew_before_anything_is_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            fields = await last_step(visitor)
            config = tmp_path / "config.env"
            config.write_text(config.read_text(encoding="utf-8") + "VarTheirs=1\n", encoding="utf-8")
            told = await step(visitor, fields, 409)
            assert "changed meanwhile" in told
            assert not (tmp_path / "agent_map.json").exists()
            assert (await visitor.post("/setup", carried(told), htmx=False)).status_code == 303
            assert parse_values(config.read_text(encoding="utf-8"))["VarTheirs"] == "1"

    run(test())


def test_without_a_name_no_agent_is_made_and_without_a_key_the_saved_one_stays(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            fields = await last_step(visitor, name="", key="")
            assert (await visitor.post("/setup", fields, htmx=False)).status_code == 303
            assert list((tmp_path / "Agent").iterdir()) == []
            assert parse_values((tmp_path / "config.env").read_text(encoding="utf-8"))["API_Key"] == "upstream-key"

    run(test())


def test_hostile_values_and_names_of_models_are_text(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            told: dict[str, Any] = {"url": HOSTILE, "key": HOSTILE, "model": HOSTILE, "models": HOSTILE}
            told |= {"name": HOSTILE, "text": HOSTILE + "</textarea><script>"}
            for at in ("model", "agent", "write"):
                text = await step(visitor, {**told, "step": at, "way": "back"})
                assert "<img src=x" not in text
                assert "<script>alert" not in text
            text = await visitor.page("/setup/done?model=%22%3E%3Cscript%3Ealert(1)&agent=%3Cimg%20src=x%3E")
            assert "<script>alert" not in text
            assert "<img src=x" not in text

    run(test())


@pytest.mark.parametrize("language", ["zh-CN", "en"])
def test_the_page_speaks_the_language_of_the_browser(tmp_path: Path, language: str) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            text = await visitor.page("/setup", language=language)
            assert ("设置助手" in text.split("<main")[1]) is (language == "zh-CN")

    run(test())


def test_a_step_that_is_none_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with visiting(tmp_path) as visitor:
            await step(visitor, {"step": "other"}, 400)

    run(test())
