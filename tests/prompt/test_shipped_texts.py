"""The agent, the guide and the map that come with the program."""

from __future__ import annotations

from pathlib import Path

from app.extend import ToolCommand, ToolSpec
from app.prompt.agents import AgentBook
from app.prompt.files import TextFiles
from app.prompt.settings import PromptSettings
from app.prompt.variables import VariableFiles
from tests.prompt.installation import Home

ROOT = Path(__file__).parents[2]


def test_the_demo_agent_shows_tools_and_date_and_says_what_it_is(home: Home) -> None:
    home.book = AgentBook(ROOT / "agent_map.json", TextFiles(ROOT / "Agent"))
    echo = ToolSpec("Echo", "local", "Echo", (ToolCommand("say", "say", "Repeats text."),))
    text = home.text("{{Nova}}", tools={"Echo": echo})
    assert "demo persona" in text
    assert "演示角色" in text
    assert "2026/1/5 01:02:03 星期一" in text
    assert text.rstrip().endswith("- Echo (Echo) - 命令: say:\n    Repeats text.")
    assert "{{" not in text


def test_every_agent_of_the_shipped_map_can_be_read() -> None:
    book = AgentBook(ROOT / "agent_map.json", TextFiles(ROOT / "Agent"))
    agents = book.load()
    assert agents.problems == ()
    assert all(book.prompt(alias, path) for alias, path in agents.aliases.items())


def test_the_guide_is_a_text_for_a_variable(home: Home) -> None:
    home.files = VariableFiles(TextFiles(ROOT / "TVStxt"))
    text = home.text("{{VarToolGuide}}", PromptSettings(variables=(("VarToolGuide", "ToolGuide.txt"),)))
    for literal in ("<<<[TOOL_REQUEST]>>>", "<<<[END_TOOL_REQUEST]>>>", "tool_name:「始」", "「末」", "「始ESCAPE」"):
        assert literal in text
    assert "{{" not in text
