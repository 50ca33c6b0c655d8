from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.extend import PromptContext
from app.mcp.groups.groups import NO_GROUPS, ServerGroup
from app.mcp.groups.injection import GroupInjection, InjectionRules, injected_text
from app.protocol.token_estimate import estimated_tokens
from tests.mcp.groups.tables import Bench, Working, plugin, served, table

SERVERS = (
    ServerGroup("weather", "Forecasts for any city"),
    ServerGroup("files", "Read and write files"),
    ServerGroup("github", "Issues and pull requests"),
)
TOOLS = (
    served("weather", "get_forecast", "The forecast of a city"),
    served("files", "read_file", "Reads a file"),
    served("files", "write_file", "Writes a file"),
    served("github", "create_issue", "Opens an issue"),
)


def injection(bench: Bench, *, on: bool = True, count: int = 2, tokens: int = 2000) -> GroupInjection:
    return GroupInjection(bench.groups.of_now, lambda: InjectionRules(on, count, tokens))


def sent(bench: Bench, messages: list[dict[str, Any]], **rules: Any) -> list[dict[str, Any]]:
    body = {"model": "m", "messages": messages, "further": 1}
    changed = asyncio.run(injection(bench, **rules).process(body, PromptContext("m", messages)))
    assert changed["further"] == 1
    assert body["messages"] is messages
    result: list[dict[str, Any]] = changed["messages"]
    return result


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


SYSTEM = {"role": "system", "content": "You are Nova."}


@pytest.fixture
def bench() -> Bench:
    return Bench(Working(*TOOLS), servers=SERVERS)


def test_the_tools_of_a_fitting_group_stand_before_the_last_message(bench: Bench) -> None:
    messages = [SYSTEM, user("hello"), {"role": "assistant", "content": "hi"}, user("the forecast for Paris?")]
    result = sent(bench, messages)
    assert result[:3] == messages[:3]
    assert result[4:] == messages[3:]
    assert result[3]["role"] == "system"
    assert "The forecast of a city" in result[3]["content"]
    assert "weather" in result[3]["content"]
    assert "Reads a file" not in result[3]["content"]


@pytest.mark.parametrize(
    "messages",
    [
        [SYSTEM, user("hello")],
        [SYSTEM],
        [],
        [user(None)],
        [user([{"type": "image_url", "image_url": {"url": "forecast"}}])],
        [{"role": "assistant", "content": "forecast"}],
        [user(7), {"role": "user"}],
    ],
)
def test_where_nothing_fits_the_body_stays_as_it_is(bench: Bench, messages: list[dict[str, Any]]) -> None:
    assert sent(bench, messages) is messages


def test_it_is_off_until_it_is_switched_on(bench: Bench) -> None:
    messages = [user("the forecast")]
    assert sent(bench, messages, on=False) is messages
    assert asyncio.run(
        GroupInjection(lambda: NO_GROUPS, lambda: InjectionRules(True, 2, 100)).process(
            {"messages": messages}, PromptContext("m", messages)
        )
    ) == {"messages": messages}


def test_texts_of_content_parts_count_too(bench: Bench) -> None:
    parts = [{"type": "text", "text": "write it"}, {"type": "text", "text": "into a file"}]
    assert "Writes a file" in sent(bench, [user(parts)])[0]["content"]


def test_over_a_conversation_all_before_the_last_message_stays_the_same(bench: Bench) -> None:
    """The common prefix of two requests that follow each other holds all that stands before the last user message."""
    talk = ["hello", "the forecast for Paris", "thanks", "write it into a file", "and for tomorrow?", "a GitHub issue"]
    talk += ["good", "read that file again", "what did the issue say", "bye"]
    history: list[dict[str, Any]] = [SYSTEM]
    before: tuple[list[dict[str, Any]], int] | None = None
    injected = []
    for said in talk:
        history = [*history, user(said)]
        request = sent(bench, history)
        injected.append(next((m["content"] for m in request[1:] if m["role"] == "system"), ""))
        if before is not None:
            earlier, last_user = before
            prefix = json.dumps(earlier[:last_user], ensure_ascii=False)[:-1]
            assert json.dumps(request, ensure_ascii=False).startswith(prefix)
        before = request, len(history) - 1
        history = [*history, {"role": "assistant", "content": f"answer to {said}"}]
    assert injected[0] == ""
    assert injected[1] == injected[2] != ""
    assert injected[3] == injected[4]
    assert injected[4].startswith(injected[1])  # order of the first choice
    assert injected == [
        *injected[:5],
        *(text for text in injected[5:] if "Opens an issue" in text),
    ]  # what was chosen stays


def test_tokens_are_a_limit(bench: Bench) -> None:
    tools = Working(*(served("files", f"file_{number}", "Reads a file. " + "word " * 40) for number in range(30)))
    bench = Bench(tools, servers=SERVERS)
    for tokens in (100, 300, 1000, 5000):
        result = sent(bench, [user("read a file")], tokens=tokens)
        text = result[0]["content"] if len(result) > 1 else ""
        assert estimated_tokens(text) <= tokens
        described = text.count("Reads a file.")
        assert described == min(30, described)
        if text:
            assert (f"另有 {30 - described} 个工具" in text) == (described < 30)
    assert text.count("Reads a file.") == 30


def test_texts_of_tools_are_put_in_literally() -> None:  # D9
    tools = Working(served("files", "read_file", "Reads {{VarA}} {{Port}} [[公共日记本]]"))
    result = sent(Bench(tools, servers=SERVERS), [user("read a file")])
    assert "Reads {{VarA}} {{Port}} [[公共日记本]]" in result[0]["content"]


def test_groups_of_plugins_are_put_in_too() -> None:
    bench = Bench(
        Working(plugin("FluxGen", "生成图片")), declared=table(绘图={"description": "画图", "tools": ["Flux*"]})
    )
    assert "生成图片" in sent(bench, [user("帮我画图")])[0]["content"]


def test_nothing_is_said_of_groups_without_tools() -> None:
    group = Bench(Working(), servers=SERVERS).groups.of_now().groups["files"]
    assert injected_text([group], 1000) == ""
