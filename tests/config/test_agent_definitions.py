"""Agents of AgentAssistant in its config.env: what is written is read equally by every reader (8.2 BUG, B44; D67)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import dotenv
from app.config.agent_definitions import (
    AgentDefinition,
    AgentDefinitions,
    agent_value,
    read_definitions,
    with_bases,
    write_definitions,
)
from app.errors import BadRequestError


def one(prompt: str) -> AgentDefinitions:
    return AgentDefinitions(agents=(AgentDefinition("NOVA", "诺娃", "m-1", prompt, 100, 0.5, "about"),))


@pytest.mark.parametrize(
    "prompt",
    [
        'say "hi" to me',
        'two\nlines with "quotes"',
        "it's",
        "# 标题\n`code` and it's fine",
        "C:\\new\\table",
        "back\\",
        '"',
        "a=b # c",
        " blanks around ",
    ],
)
def test_a_prompt_reaches_the_agent_as_it_was_typed_and_comes_back_to_the_editor(prompt: str) -> None:
    """B44: the env reader alone, which agents use, and the editor's reader give the same text."""
    written = write_definitions("", one(prompt))
    assert dotenv.parse_values(written)["AGENT_NOVA_SYSTEM_PROMPT"] == prompt
    assert read_definitions(written) == one(prompt)


def test_what_no_quoting_can_hold_is_escaped_as_older_editors_do_and_read_back() -> None:
    prompt = '# 标题\n"it\'s" `x`'
    assert dotenv.quote(prompt) is None
    assert read_definitions(write_definitions("", one(prompt))) == one(prompt)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab \n\r\"'`\\#n=中{}", max_size=30))
def test_every_prompt_round_trips_or_is_refused(prompt: str) -> None:
    try:
        written = write_definitions("KEEP='x'\n", one(prompt))
    except BadRequestError:
        return
    assert read_definitions(written) == one(prompt)
    assert dotenv.parse_values(written)["KEEP"] == "x"


def test_values_that_older_editors_escaped_are_read_as_they_were_meant() -> None:
    text = 'AGENT_A_MODEL_ID="m"\nAGENT_A_CHINESE_NAME="甲"\nAGENT_A_SYSTEM_PROMPT="say \\"hi\\"\\nC:\\\\x"\n'
    assert read_definitions(text).agents[0].system_prompt == 'say "hi"\nC:\\x'
    assert agent_value('mixed \\" and "') == 'mixed \\" and "'


def test_lines_that_are_no_agents_stay_and_values_of_several_lines_go_whole() -> None:
    """8.2: all other lines are kept, comments too; the definitions follow below them."""
    text = (
        "# a comment\r\nOTHER=1\r\nAGENT_OLD_MODEL_ID=m\r\nAGENT_OLD_CHINESE_NAME=旧\r\n"
        "AGENT_OLD_SYSTEM_PROMPT='first\nTHIRD=no\nlast' # gone\r\nAGENT_DIR_PATH=here\r\n"
        "export AGENT_OLD_TEMPERATURE=1\r\n"
        "PLUGIN_COMMUNICATION_TIMEOUT = 118000\r\n\r\n\r\n"
    )
    written = write_definitions(text, one("x"))
    kept, agents = written.split("\n\n", 1)
    assert kept.split("\n") == [
        "# a comment",
        "OTHER=1",
        "AGENT_DIR_PATH=here",
        "PLUGIN_COMMUNICATION_TIMEOUT = 118000",
    ]
    assert agents.startswith("AGENT_ASSISTANT_MAX_HISTORY_ROUNDS=7\nAGENT_ASSISTANT_CONTEXT_TTL_HOURS=24\n")
    assert "OLD" not in written
    assert write_definitions(written, one("x")) == written


def test_a_quote_that_is_never_closed_is_told_and_swallows_no_agent() -> None:
    with pytest.raises(BadRequestError, match="quote"):
        write_definitions("OTHER='open\n", one("say \"x'"))


def test_base_names_are_derived_upper_case_and_never_the_reserved_one() -> None:
    """8.2: the ASCII part of the name, else AGENT, AGENT_2; D67: mixed case loads nothing."""
    names = ["诺娃", "小克 Nova-1", "甲", "all", "", "Nova"]
    agents = [AgentDefinition("", name, "m") for name in names] + [AgentDefinition("miXed", "x", "m")]
    assert [(agent.base, agent.name) for agent in with_bases(agents)] == [
        ("AGENT", "诺娃"),
        ("NOVA_1", "小克 Nova-1"),
        ("AGENT_2", "甲"),
        ("ALL_2", "all"),
        ("NOVA", "Nova"),
        ("MIXED", "x"),
    ]


def test_numbers_that_cannot_be_read_are_the_defaults_and_halves_of_agents_are_none() -> None:
    text = (
        "AGENT_ASSISTANT_MAX_HISTORY_ROUNDS=many\nAGENT_ALL_SYSTEM_PROMPT=all\nAGENT_B_CHINESE_NAME=乙\n"
        "AGENT_a_MODEL_ID=m\nAGENT_a_CHINESE_NAME=甲\nAGENT_a_TEMPERATURE=nan\nAGENT_a_MAX_OUTPUT_TOKENS=-1\n"
    )
    assert read_definitions(text) == AgentDefinitions(7, 24, "all", (AgentDefinition("A", "甲", "m"),))
