"""A new agent: its file and its entry in agent_map.json, without losing what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import BadRequestError
from app.prompt.agents import parse_agent_map
from app.prompt.new_agent import AgentTakenError, agent_name, with_agent, write_agent

MAP = """{
  "//": "first note",
  "//": "second note",
  "Nova": "Nova.txt",
  "Odd": 5
}
"""


def test_the_first_agent_makes_folder_file_and_map(tmp_path: Path) -> None:
    assert write_agent(tmp_path, " 小克 ", "你是小克。") == "Agent/小克.txt"
    assert (tmp_path / "Agent" / "小克.txt").read_text(encoding="utf-8") == "你是小克。"
    assert json.loads((tmp_path / "agent_map.json").read_text(encoding="utf-8")) == {"小克": "小克.txt"}
    assert write_agent(tmp_path, "小克", "你是小克。") == "Agent/小克.txt"


def test_notes_order_and_odd_entries_of_the_map_stay() -> None:
    text = with_agent(MAP, "New", "New.txt")
    pairs = json.loads(text, object_pairs_hook=list)
    assert pairs == [("//", "first note"), ("//", "second note"), ("Nova", "Nova.txt"), ("Odd", 5), ("New", "New.txt")]
    assert dict(parse_agent_map(text, "m").aliases) == {"Nova": "Nova.txt", "New": "New.txt"}
    assert with_agent(MAP, "Nova", "Nova.txt") == MAP


def test_an_agent_that_is_there_is_replaced_only_when_that_is_wanted(tmp_path: Path) -> None:
    write_agent(tmp_path, "Nova", "mine")
    (tmp_path / "agent_map.json").write_text('{"Nova": "Nova.txt", "Luna": "other/Luna.md"}', encoding="utf-8")
    for name in ("Nova", "Luna"):
        with pytest.raises(AgentTakenError):
            write_agent(tmp_path, name, "yours")
    assert (tmp_path / "Agent" / "Nova.txt").read_text() == "mine"
    assert not (tmp_path / "Agent" / "Luna.txt").exists()
    write_agent(tmp_path, "Nova", "yours", replace=True)
    write_agent(tmp_path, "Luna", "yours", replace=True)
    assert (tmp_path / "Agent" / "Nova.txt").read_text() == "yours"
    assert json.loads((tmp_path / "agent_map.json").read_text()) == {"Nova": "Nova.txt", "Luna": "Luna.txt"}


@pytest.mark.parametrize(
    "name", ["", "  ", "../x", "a/b", "a\\b", "a\0b", "a\nb", "{{x}}", ".hidden", "x" * 61, "a:b", "a]b"]
)
def test_names_that_name_no_file_or_no_placeholder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequestError):
        agent_name(name)
    with pytest.raises(BadRequestError):
        write_agent(tmp_path, name, "text")
    assert not (tmp_path / "agent_map.json").exists()


@pytest.mark.parametrize("text", ["[1]", "{", '"x"', "[" * 5000])
def test_a_map_that_is_no_object_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "agent_map.json").write_text(text)
    with pytest.raises(BadRequestError):
        write_agent(tmp_path, "Nova", "text")
    assert (tmp_path / "agent_map.json").read_text() == text
    assert not (tmp_path / "Agent" / "Nova.txt").exists()


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    (tmp_path / "Agent").mkdir()
    (tmp_path / "Agent" / "Nova.txt").symlink_to(outside)
    with pytest.raises(PermissionError):
        write_agent(tmp_path, "Nova", "text")
    assert not outside.exists()


def test_texts_of_more_than_a_mebibyte_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError):
        write_agent(tmp_path, "Nova", "x" * (1024 * 1024 + 1))
