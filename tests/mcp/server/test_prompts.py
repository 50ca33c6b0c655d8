"""Agents as prompts (mcp.md MCP-29)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.errors import BadRequestError, NotFoundError
from app.extend import CallContext, Door
from app.mcp.server.prompts import Prompts
from app.prompt.agents import AgentBook
from app.prompt.files import TextFiles

WHO = CallContext("turn-1", Door.MCP)


def prompts(home: Path, *wanted: str) -> Prompts:
    (home / "Agent").mkdir(exist_ok=True)
    (home / "agent_map.json").write_text(json.dumps({"Nova": "n.txt", "小克": "k.txt", "Nobody": "x.txt"}))

    async def expand(text: str) -> str:
        return f"<{text}>"

    return Prompts(AgentBook(home / "agent_map.json", TextFiles(home / "Agent")), lambda: wanted, expand)


def names(shelf: Prompts) -> list[str]:
    return [prompt.name for prompt in asyncio.run(shelf.list()).prompts]


def test_mcp_29_only_the_agents_that_the_settings_name_are_prompts(tmp_path: Path) -> None:
    assert names(prompts(tmp_path)) == []
    assert names(prompts(tmp_path, "No*")) == ["Nobody", "Nova"]
    assert names(prompts(tmp_path, "*")) == ["Nobody", "Nova", "小克"]
    (nova,) = asyncio.run(prompts(tmp_path, "Nova").list()).prompts
    assert nova.arguments is not None
    assert [(argument.name, argument.required) for argument in nova.arguments] == [("input", False)]


def test_mcp_29_a_prompt_is_the_expanded_agent_and_what_the_person_says_stays_as_it_is(tmp_path: Path) -> None:
    """D9: only the operator's text is expanded."""
    shelf = prompts(tmp_path, "*")
    result = asyncio.run(shelf.get("小克", {"input": "{{agent:Nova}} {{Date}}"}, WHO))
    assert [(message.role, message.content.text) for message in result.messages] == [
        ("user", "<{{agent:小克}}>"),
        ("user", "{{agent:Nova}} {{Date}}"),
    ]
    assert len(asyncio.run(shelf.get("小克", {}, WHO)).messages) == 1


def test_mcp_29_unknown_names_and_arguments_are_told(tmp_path: Path) -> None:
    shelf = prompts(tmp_path, "Nova")
    with pytest.raises(NotFoundError):
        asyncio.run(shelf.get("小克", {}, WHO))
    with pytest.raises(BadRequestError, match="topic"):
        asyncio.run(shelf.get("Nova", {"topic": "x"}, WHO))
    with pytest.raises(NotFoundError):
        asyncio.run(shelf.complete("小克", "input", "", {}))
    assert asyncio.run(shelf.complete("Nova", "input", "", {})).values == []
