"""Preprocessors of plugins: stage, whole body, order of now, one list for a turn (spec 3.1, 3.7, 5.7; D9, D31)."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import Body, PromptContext, RoundStarted, Stage
from app.plugins.preprocessor_order import ORDER_FILE, PreprocessorOrder
from tests.plugins.modules import alone, reload_plugins, serving, write_module
from tests.server import ECHO, call_text, running, write_plugin

__all__ = ["alone"]


def step(body: str, method: str = "def") -> str:
    lines = "\n        ".join(body.split("\n"))
    return (
        f"class P:\n    {method} process(self, body, context):\n        {lines}\ndef create(context):\n    return P()\n"
    )


def marking(word: str) -> str:
    """A step that adds a word to the last message."""
    return step(f"body['messages'][-1]['content'] += '{word}'\nreturn body")


def write_step(home: Path, name: str, source: str, **manifest: Any) -> None:
    write_module(home, name, source, **{"pluginType": "messagePreprocessor", **manifest})


async def sent(home: Path, *messages: Any, config: tuple[str, ...] = (), **body: Any) -> Any:
    """The body that goes upstream for a chat with these messages."""
    async with ScriptedUpstream([say("ok")]) as up, running(home, up.base_url, config=config) as server:
        answered = await server.chat(*messages, **body)
        assert answered.status_code == 200
        return up.exchanges[0].request.json


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


@pytest.mark.parametrize("method", ["def", "async def"])
def test_a_step_gets_the_whole_body_and_unknown_fields_pass(alone: Path, method: str) -> None:
    message = "{'role': 'user', 'content': repr(sorted(body)) + context.model}"
    body = f"body['messages'].append({message})\nbody['new'] = 1\nreturn body"
    write_step(alone, "X", step(body, method))
    seen = asyncio.run(sent(alone, "hi", foo=7))
    assert (seen["foo"], seen["new"]) == (7, 1)
    assert seen["messages"][-1]["content"] == "['foo', 'messages', 'model']m"


def test_before_variables_its_texts_are_messages_that_get_what_their_role_allows(alone: Path) -> None:
    insert = (
        "body['messages'] = [{'role': 'system', 'content': 'S {{VarCity}}'}, "
        "{'role': 'user', 'content': 'U {{VarCity}}'}, *body['messages']]\nreturn body"
    )
    write_step(alone, "X", step(insert), stage="before_variables")
    seen = asyncio.run(sent(alone, "hi", config=("VarCity=上海",)))
    assert [message["content"] for message in seen["messages"]] == ["S 上海", "U {{VarCity}}", "hi"]


@pytest.mark.parametrize("stage", [None, "after", "media", "before_each_round"])
def test_d9_what_comes_after_the_variables_is_put_in_literally(alone: Path, stage: str | None) -> None:
    insert = "body['messages'].insert(0, {'role': 'system', 'content': '{{VarCity}}'})\nreturn body"
    write_step(alone, "X", step(insert), **({"stage": stage} if stage else {}))
    seen = asyncio.run(sent(alone, system("{{VarCity}}"), config=("VarCity=上海",)))
    assert [message["content"] for message in seen["messages"]] == ["{{VarCity}}", "上海"]


def test_media_steps_are_left_out_where_the_conversation_asks_for_it(alone: Path) -> None:
    write_step(alone, "X", marking("media"), stage="media")
    assert asyncio.run(sent(alone, "hi"))["messages"][-1]["content"] == "himedia"
    assert asyncio.run(sent(alone, "hi{{ShowBase64}}"))["messages"][-1]["content"] == "hi"


def test_a_step_before_each_round_runs_in_each_round(alone: Path) -> None:
    write_plugin(alone, "Echo", ECHO)
    write_step(
        alone,
        "X",
        step("body['round'] = context.round\nbody['seen'] = len(context.messages)\nreturn body"),
        stage="before_each_round",
    )

    async def main() -> None:
        async with (
            ScriptedUpstream([say(call_text("Echo")), say("end")]) as up,
            running(alone, up.base_url) as server,
        ):
            await server.chat("hi")
            seen = [(exchange.request.json["round"], exchange.request.json["seen"]) for exchange in up.exchanges]
            assert seen == [(1, 1), (2, 3)]

    asyncio.run(main())


FAULTS = [
    "body['messages'].clear()\nraise ValueError('x')",
    "body['messages'][0]['content'] = 'spoilt'\nimport threading\nthreading.Event().wait(0.6)",
    "return None",
    "return {'messages': 'none'}",
    "return {**body, 'bad': {1, 2}}",
    "return {**body, 'bad': float('inf')}",
    "a = []\na.append(a)\nreturn {**body, 'bad': a}",
    "raise SystemExit",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_fails_is_skipped_and_its_input_goes_on_unspoilt(
    alone: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    write_step(alone, "Bad", step(fault), timeout=300)
    write_step(alone, "Good", marking("!"))
    assert asyncio.run(sent(alone, "hi"))["messages"] == [{"role": "user", "content": "hi!"}]
    assert "preprocessor Bad failed and was skipped" in caplog.text


def test_a_step_that_changes_its_copy_later_changes_nothing(alone: Path) -> None:
    later = "threading.Timer(0, kept['messages'].clear).start()"
    body = f"import copy, threading\nkept = body\nout = copy.deepcopy(body)\n{later}\nreturn out"
    write_step(alone, "X", step(body))
    assert len(asyncio.run(sent(alone, "hi"))["messages"]) == 1


def test_a_hybrid_plugin_may_have_a_step_too(alone: Path) -> None:
    write_module(alone, "X", marking("!"))
    assert asyncio.run(sent(alone, "hi"))["messages"][-1]["content"] == "hi!"


def write_order(home: Path, text: str) -> None:
    (home / ORDER_FILE).write_text(text, encoding="utf-8")


def test_the_order_is_the_files_then_the_alphabets_and_is_read_anew_for_each_turn(alone: Path) -> None:
    for name in "ABCD":
        write_step(alone, name, marking(name))

    async def main() -> None:
        replies = [say("ok")] * 4
        async with ScriptedUpstream(replies) as up, running(alone, up.base_url) as server:
            for order in ("", '["C", "Nobody", "A", "C", 5]', "{oops", '["D"]'):
                if order:
                    write_order(alone, order)
                await server.chat("-")
            said = [exchange.request.json["messages"][-1]["content"] for exchange in up.exchanges]
            assert said == ["-ABCD", "-CABD", "-CABD", "-DABC"]

    asyncio.run(main())


def test_a_turn_keeps_its_list_while_another_order_and_another_plugin_come(alone: Path) -> None:
    write_plugin(alone, "Echo", ECHO)
    for name in "AB":
        write_step(
            alone,
            name,
            step(f"body['order'] = body.get('order', '') + '{name}'\nreturn body"),
            stage="before_each_round",
        )

    async def main() -> None:
        async with (
            ScriptedUpstream([say(call_text("Echo")), say("end"), say("other")]) as up,
            running(alone, up.base_url) as server,
        ):

            def change(event: RoundStarted) -> None:
                if event.number == 1:
                    write_order(alone, '["B"]')

            server.services.events.listen(change, RoundStarted)  # type: ignore[arg-type]  # only of this kind
            await server.chat("hi")
            await server.chat("hi")
            assert [exchange.request.json["order"] for exchange in up.exchanges] == ["AB", "ABAB", "BA"]

    asyncio.run(main())


def test_a_step_whose_plugin_is_removed_or_swapped_in_mid_turn_does_no_harm(alone: Path) -> None:
    write_step(alone, "X", marking("1"))
    write_step(alone, "Y", marking("y"))

    async def main() -> None:
        async with serving(alone) as services:
            steps = services.in_process.preprocessors()
            write_step(alone, "X", marking("2"), version="2")
            (alone / "Plugin" / "Y" / "plugin-manifest.json").unlink()
            await reload_plugins(services)
            body: Body = {"messages": [{"role": "user", "content": "-"}]}
            for one in steps:
                body = await one.process(body, PromptContext("m", body["messages"]))
            assert body["messages"][0]["content"] == "-2"
            assert [(one.name, one.stage) for one in services.in_process.preprocessors()] == [("X", Stage.AFTER)]

    asyncio.run(main())


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"{}", b"[" * 100_000, b'"A"', b"[" + b'"x",' * 400_000 + b'"x"]', b"NaN"],
    ids=["not utf-8", "object", "deep", "text", "huge", "no json"],
)
def test_an_order_file_that_cannot_be_used_leaves_the_last_order_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    order = PreprocessorOrder(tmp_path)
    (tmp_path / ORDER_FILE).write_text('\ufeff["B"]', encoding="utf-8")
    assert order.sorted("AB") == ["B", "A"]
    (tmp_path / ORDER_FILE).write_bytes(content)
    for _ in range(3):
        assert order.sorted("AB") == ["B", "A"]
    assert len(caplog.records) == 1
    (tmp_path / ORDER_FILE).unlink()
    assert order.sorted("AB") == ["A", "B"]


def test_an_order_file_that_is_a_folder_or_a_pipe_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import os

    os.mkfifo(tmp_path / ORDER_FILE)
    assert PreprocessorOrder(tmp_path).sorted("BA") == ["A", "B"]
    assert "not a regular file" in caplog.text


def test_placeholders_of_a_plugin_are_data_by_default_and_go_with_it(alone: Path) -> None:
    source = """
    import re
    class Source:
        name = "weather"
        pattern = re.compile(r"\\{\\{Weather::(\\w+)\\}\\}")
        roles = ("system",)
        def resolve(self, found, context):
            return {item.text: "rain in " + item.groups[0] + " {{VarCity}}" for item in found}
    class P:
        def placeholders(self):
            return [Source()]
    def create(context):
        return P()
    """
    write_module(alone, "X", source, pluginType="service")
    seen = asyncio.run(sent(alone, system("{{Weather::Rome}}"), "{{Weather::Rome}}", config=("VarCity=a",)))
    assert [message["content"] for message in seen["messages"]] == ["rain in Rome {{VarCity}}", "{{Weather::Rome}}"]

    async def gone() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(alone, up.base_url) as server:
            (alone / "Plugin" / "X" / "plugin-manifest.json").unlink()
            await reload_plugins(server.services)
            await server.chat(system("{{Weather::Rome}}"))
            assert up.exchanges[0].request.json["messages"][0]["content"] == "{{Weather::Rome}}"

    asyncio.run(gone())


def test_an_incomplete_placeholder_source_costs_its_plugin_and_says_what_is_missing(alone: Path) -> None:
    source = """
    class Source:
        name, pattern, roles, resolve = "x", "text", [], None
    class P:
        def placeholders(self):
            return [Source()]
    def create(context):
        return P()
    """
    write_module(alone, "X", source)

    async def main() -> None:
        async with serving(alone) as services:
            assert "a placeholder source is incomplete" in services.in_process.problems()[0]

    asyncio.run(main())


def test_the_servers_own_steps_stay_in_front(alone: Path) -> None:
    write_step(alone, "A", marking("A"))

    class Own:
        name = "zzz"
        stage = Stage.AFTER

        async def process(self, body: Body, context: PromptContext) -> Body:
            return {**body, "messages": [{"role": "user", "content": "own"}]}

    async def main() -> None:
        async with (
            ScriptedUpstream([say("ok")]) as up,
            running(alone, up.base_url, preprocessors=[Own()]) as server,
        ):
            await server.chat("hi")
            assert json.loads(up.exchanges[0].request.body)["messages"][-1]["content"] == "ownA"

    asyncio.run(main())


def test_with_debug_mode_a_turn_with_steps_is_dumped_like_any_other(alone: Path) -> None:
    write_step(alone, "X", marking("!"))
    asyncio.run(sent(alone, "hi", config=("DebugMode=true",)))
    names = {path.name.partition("-")[0] for path in (alone / "DebugLog").iterdir()}
    assert {"LogInput", "LogAfterVariableProcessing", "LogAfterPreprocessors"} <= names


WANTING = """
class P:
    def wants(self, body, context):
        text = body["messages"][-1]["content"]
        return "yes" if text == "odd" else "please" in text
    def process(self, body, context):
        body["messages"][-1]["content"] += "!"
        return body
def create(context):
    return P()
"""


class Uncopied:
    """What fails when it is copied, and is no JSON either."""

    def __deepcopy__(self, memo: object) -> Uncopied:
        raise AssertionError("the body was copied")


def test_a_body_that_a_step_does_not_want_is_neither_copied_nor_checked(alone: Path) -> None:
    write_step(alone, "X", WANTING)

    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(alone, up.base_url) as server:
            (step,) = server.services.in_process.preprocessors()
            body: Body = {"messages": [{"role": "user", "content": "hi"}], "deep": [Uncopied()]}
            context = PromptContext("m", body["messages"], 1)
            assert await step.process(body, context) is body
            wanted: Body = {"messages": [{"role": "user", "content": "please"}]}
            changed = await step.process(wanted, context)
            assert (changed["messages"][0]["content"], wanted["messages"][0]["content"]) == ("please!", "please")
            with pytest.raises(TypeError, match="not True or False"):
                await step.process({"messages": [{"role": "user", "content": "odd"}]}, context)

    asyncio.run(main())


@pytest.mark.parametrize("plugin", ["VCPTavern", "ImageProcessor"])
def test_turns_without_trigger_or_media_pay_nothing_for_the_plugins_that_come_along(plugin: str, alone: Path) -> None:
    shutil.copytree(Path(__file__).parents[2] / "Plugin" / plugin, alone / "Plugin" / plugin)
    config = ("MultiModalModel=m", "MultiModalPrompt=p")

    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(alone, up.base_url, config=config) as server:
            (step,) = [one for one in server.services.in_process.preprocessors() if one.name == plugin]
            messages = [system("S"), {"role": "user", "content": [{"type": "text", "text": "看"}]}]
            body: Body = {"messages": messages, "deep": [Uncopied()]}
            assert await step.process(body, PromptContext("m", messages, 1)) is body

    asyncio.run(main())
