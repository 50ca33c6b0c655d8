from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from app.errors import PromptLimitError
from app.prompt.agents import parse_agent_map
from app.prompt.limits import PromptLimits
from app.prompt.settings import PromptSettings, SarRule
from tests.prompt.installation import Home

UNREADABLE = "[AgentManager: Error loading prompt for 'Nova'. File not found or unreadable.]"


def test_agents_are_expanded_inside_each_other_and_in_both_forms(home: Home) -> None:
    home.agents(A="a({{B}},{{agent:B}})", B="b")
    assert home.text("{{A}}{{agent:A}}") == "a(b,b)a(b,b)"


def test_an_agent_wins_over_a_later_placeholder_of_the_same_name(home: Home) -> None:
    home.agents(Date="agent text")
    assert home.text("{{Date}}") == "agent text"


def test_an_agents_text_passes_the_variables_once_more_than_the_text_around_it(home: Home) -> None:
    home.agents(A="{{VarA}}")
    settings = PromptSettings(variables=(("VarB", "b"), ("VarA", "[{{VarB}}]")))
    assert home.text("{{A}}", settings) == "[b]"


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "function"])
def test_a_clients_text_does_not_read_prompts(home: Home, role: str) -> None:
    home.agents(Nova="secret")
    assert home.text("{{agent:Nova}} {{Nova}}", role=role) == "{{agent:Nova}} {{Nova}}"


def test_a_user_text_that_is_a_system_note_gets_agents_and_sar_only(home: Home) -> None:
    home.agents(Nova="I {{VarB}} {{SarPrompt1}} {{Date}}")
    settings = PromptSettings(variables=(("VarB", "b"),), sar=(SarRule("1", ("gpt-y",), "sar"),))
    assert home.text("[系统邀请指令:]{{Nova}}", settings, role="user") == "[系统邀请指令:]I {{VarB}} sar {{Date}}"
    assert home.text(" [系统邀请指令:]{{Nova}}", settings, role="user") == " [系统邀请指令:]{{Nova}}"


def test_cycles_are_named_and_the_rest_is_expanded(home: Home) -> None:
    home.agents(A="1{{A}}2{{C}}", C="c")
    assert home.text("{{A}}{{C}}") == "1[Error: Circular agent reference detected for 'A']2cc"


def test_edited_agent_files_and_maps_are_in_the_next_chat(home: Home) -> None:
    home.agents(Nova="old")
    assert home.text("{{Nova}}") == "old"
    home.write("Agent/Nova.txt", "new")
    assert home.text("{{Nova}}") == "new"
    home.agents(Other="other")
    assert home.text("{{Nova}}{{Other}}") == "{{Nova}}other"


@pytest.mark.parametrize("path", ["sub\\Nova.txt", "sub/Nova.txt", "./sub/../sub\\Nova.txt"])
def test_maps_from_another_system_work(home: Home, path: str) -> None:
    home.write("Agent/sub/Nova.txt", "nova")
    home.write("agent_map.json", json.dumps({"Nova": path}))
    assert home.text("{{Nova}}") == "nova"


def test_a_name_that_differs_in_case_is_named_in_the_log(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.write("Agent/Sub/nova.TXT", "nova")
    home.write("agent_map.json", json.dumps({"Nova": "sub\\Nova.txt"}))
    assert home.text("{{Nova}}") == UNREADABLE
    assert "'Nova'" in caplog.text
    assert "there is 'Sub/nova.TXT'" in caplog.text


@pytest.mark.parametrize(
    "path", ["../secret.txt", "..\\secret.txt", "sub/../../secret.txt", "/etc/passwd", "..", "", "."]
)
def test_paths_that_lead_out_of_the_folder_are_not_read(home: Home, path: str) -> None:
    home.write("secret.txt", "secret")
    home.write("agent_map.json", json.dumps({"Nova": path}))
    assert home.text("{{Nova}}") in (UNREADABLE, "{{Nova}}")


@pytest.mark.parametrize("path", ["a\0b.txt", "\ud800.txt", "x" * 5000, "Agentless.txt"])
def test_names_that_cannot_be_files_give_the_error_text(home: Home, path: str) -> None:
    home.write("agent_map.json", json.dumps({"Nova": path}))
    assert home.text("{{Nova}}") == UNREADABLE


def test_links_that_lead_out_and_things_that_are_no_files_are_not_read(home: Home) -> None:
    secret = home.write("secret.txt", "secret")
    (home.path / "Agent/link.txt").symlink_to(secret)
    os.mkfifo(home.path / "Agent/pipe.txt")
    (home.path / "Agent/folder.txt").mkdir()
    for path in ("link.txt", "pipe.txt", "folder.txt"):
        home.write("agent_map.json", json.dumps({"Nova": path}))
        assert home.text("{{Nova}}") == UNREADABLE


def test_a_sibling_folder_whose_name_begins_alike_is_outside(home: Home) -> None:
    home.write("Agent2/Nova.txt", "other")
    home.write("agent_map.json", json.dumps({"Nova": "../Agent2/Nova.txt"}))
    assert home.text("{{Nova}}") == UNREADABLE


def test_the_map_is_read_tolerantly() -> None:
    text = '{"//": "one", "//": "two", "Nova": "n.txt", "Bad": 3, "List": ["x"], "// note": "z", "小克": "k.md"}'
    agent_map = parse_agent_map(text, "agent_map.json")
    assert dict(agent_map.aliases) == {"Nova": "n.txt", "小克": "k.md"}
    assert agent_map.problems == (
        "agent_map.json: agent 'Bad' is not a file path but 3",
        "agent_map.json: agent 'List' is not a file path but [\"x\"]",
    )


def test_a_byte_order_mark_in_map_and_agent_is_dropped(home: Home) -> None:
    home.write("Agent/Nova.txt", "\ufeffnova\r\n")
    home.write("agent_map.json", '\ufeff{"Nova": "Nova.txt"}')
    assert home.text("{{Nova}}") == "nova\r\n"


@pytest.mark.parametrize("broken", ['{"Nova": ', "[]", "", "[" * 100_000, '{"Nova": "\xff"'])
def test_a_broken_map_leaves_the_last_good_one_in_force(
    home: Home, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    home.agents(Nova="nova")
    assert home.text("{{Nova}}") == "nova"
    home.write("agent_map.json", broken)
    caplog.set_level(logging.WARNING)
    assert home.text("{{Nova}}") == "nova"
    assert home.text("{{Nova}}") == "nova"
    assert caplog.text.count("agent_map.json is not usable") == 1


def test_without_a_map_there_are_no_agents(home: Home) -> None:
    assert home.text("{{Nova}}") == "{{Nova}}"


def test_agents_nested_too_deep_are_a_named_error(home: Home) -> None:
    home.agents(**{f"A{n}": f"{{{{A{n + 1}}}}}" for n in range(25)}, A25="end")
    with pytest.raises(PromptLimitError, match="'agent:A20'"):
        home.text("{{A0}}")
    assert home.text("{{A6}}") == "end"


@pytest.mark.parametrize("text", ["", "lol"])
def test_agents_that_multiply_are_stopped_and_named(home: Home, text: str) -> None:
    agents = {f"L{n}": f"{{{{L{n + 1}}}}}" * 10 for n in range(9)}
    home.agents(**agents, L9=text)
    with pytest.raises(PromptLimitError, match=r"'agent:L[0-9]'"):
        home.text("{{L0}}")


def test_agents_that_grow_too_long_are_stopped_and_named(home: Home) -> None:
    home.agents(Nova="x" * 600)
    settings = PromptSettings(limits=PromptLimits(characters=1000))
    assert len(home.text("{{Nova}}", settings)) == 600
    with pytest.raises(PromptLimitError, match="'agent:Nova'"):
        home.text("{{Nova}}{{Nova}}", settings)


def test_an_agent_file_over_the_limit_is_refused(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.agents(Nova="")
    with (home.path / "Agent/Nova.txt").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    assert home.text("{{Nova}}") == UNREADABLE
    assert "over 8388608 bytes" in caplog.text


def test_a_map_that_cannot_be_opened_keeps_the_agents(home: Home, tmp_path: Path) -> None:
    home.agents(Nova="nova")
    assert home.text("{{Nova}}") == "nova"
    (home.path / "agent_map.json").unlink()
    (home.path / "agent_map.json").mkdir()
    assert home.text("{{Nova}}") == "nova"
