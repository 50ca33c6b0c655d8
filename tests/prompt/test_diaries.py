from __future__ import annotations

import json
import os

import pytest

from app.prompt.diaries import Notebooks
from app.prompt.settings import PromptSettings
from tests.prompt.installation import Home

MISSING = "[X日记本内容为空或未从插件获取]"


def test_a_notebook_is_all_its_files_in_name_order(home: Home) -> None:
    home.write("dailynote/X/2026-01-02.md", "two")
    home.write("dailynote/X/2026-01-01.TXT", "one")
    home.write("dailynote/X/note.pdf", "no")
    home.write("dailynote/X/.hidden.txt", "no")
    home.write("dailynote/X/sub/deep.txt", "no")
    assert home.text("<{{X日记本}}>") == "<one\n\n---\n\ntwo>"


def test_empty_and_missing_notebooks_have_their_texts(home: Home) -> None:
    (home.path / "dailynote/X").mkdir()
    assert home.text("{{X日记本}} {{Y日记本}}") == "[X日记本内容为空] [Y日记本内容为空或未从插件获取]"


def test_notebooks_are_read_live(home: Home) -> None:
    assert home.text("{{X日记本}}") == MISSING
    home.write("dailynote/X/a.txt", "old")
    assert home.text("{{X日记本}}") == "old"
    home.write("dailynote/X/a.txt", "new")
    assert home.text("{{X日记本}}") == "new"


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_only_system_text_names_notebooks(home: Home, role: str) -> None:
    home.write("dailynote/X/a.txt", "secret")
    assert home.text("[系统]{{X日记本}}", role=role) == "[系统]{{X日记本}}"


HOSTILE = (
    "{{Date}} {{VarA}} <<VarA>> {{agent:Nova}} {{Nova}} {{X日记本}} {{Y日记本}} [[Y日记本]] {{VCPAllTools}} {{Port}}"
    " {{SarPrompt1}} {{VCP_ASYNC_RESULT::P::1}} $& $$ \\1 {{"
)


def test_what_a_diary_says_is_never_expanded(home: Home) -> None:
    home.agents(Nova="nova")
    home.write("dailynote/X/a.txt", HOSTILE)
    home.write("dailynote/Y/a.txt", "}} Date}} {{X日记本}}")
    settings = PromptSettings(variables=(("VarA", "a"),), port=1)
    assert home.text("{{X日记本}}{{Y日记本}}", settings) == HOSTILE + "}} Date}} {{X日记本}}"


def test_notebooks_named_by_variables_and_agents_are_found(home: Home) -> None:
    home.write("dailynote/X/a.txt", "diary")
    home.agents(Nova="{{X日记本}} {{VarX}}")
    settings = PromptSettings(variables=(("VarX", "{{X日记本}}"), ("VarName", "X")))
    assert home.text("{{VarX}}", settings) == "diary"
    assert home.text("{{Nova}}", settings) == "diary diary"
    assert home.text("{{{{VarName}}日记本}}", settings) == "diary"


def test_several_placeholders_on_a_line_do_not_swallow_each_other(home: Home) -> None:
    home.write("dailynote/X/a.txt", "x")
    home.write("dailynote/X日记本的/a.txt", "y")
    assert home.text("{{Date}} {{X日记本}} {{X日记本的日记本}} {{日记本}} {{ab") == "2026/1/5 x y {{日记本}} {{ab"


@pytest.mark.parametrize(
    "name", ["..", ".", "../secret", "a/b", "a\\b", "/etc", "a\0b", "n" * 3000, "file.txt", "..\\x", "\ud800"]
)
def test_names_that_are_no_folder_below_the_root_are_missing(home: Home, name: str) -> None:
    home.write("secret/a.txt", "secret")
    home.write("dailynote/a/b/c.txt", "deep")
    home.write("dailynote/file.txt", "root")
    assert home.text("{{" + name + "日记本}}") == f"[{name}日记本内容为空或未从插件获取]"


def test_links_that_lead_out_are_not_followed(home: Home) -> None:
    secret = home.write("secret/a.txt", "secret")
    (home.path / "dailynote/X").symlink_to(secret.parent)
    home.write("dailynote/Y/b.txt", "b")
    (home.path / "dailynote/Y/a.txt").symlink_to(secret)
    os.mkfifo(home.path / "dailynote/Y/c.txt")
    assert home.text("{{X日记本}}") == MISSING
    assert home.text("{{Y日记本}}") == ("[Error reading file: a.txt]\n\n---\n\nb\n\n---\n\n[Error reading file: c.txt]")


def test_a_long_notebook_keeps_its_newest_part_and_says_so(home: Home) -> None:
    for day in range(1, 6):
        home.write(f"dailynote/X/2026-01-0{day}.txt", str(day) * 100)
    home.notebooks.max_chars = 250
    separator = "\n\n---\n\n"
    note = "[X日记本超过 250 字，较早的内容已省略 / notebook longer than 250 characters, the earlier part is left out]"
    left = 250 - 2 * (100 + len(separator))
    assert home.text("{{X日记本}}") == separator.join((note, "3" * left, "4" * 100, "5" * 100))


@pytest.mark.parametrize("text", ["好" * 50, "a好" * 50, "\U0001f600" * 50, "ab" * 50])
@pytest.mark.parametrize("limit", [0, 1, 7, 49, 50])
def test_a_cut_never_breaks_a_character(home: Home, text: str, limit: int) -> None:
    home.write("dailynote/X/a.txt", text)
    assert home.notebooks.max_chars > 100
    notebooks = Notebooks(home.path / "dailynote", limit)
    kept = (notebooks.read("X") or "").rpartition("\n\n---\n\n")[2]
    assert kept == (text if len(text) <= limit else text[len(text) - limit :])


def test_all_notebooks_come_as_one_json_object(home: Home) -> None:
    home.write("dailynote/X/a.txt", 'say "{{Date}}"')
    home.write("dailynote/公共/a.md", "好")
    home.write("dailynote/README.md", "root")
    (home.path / "dailynote/空").mkdir()
    text = home.text("{{AllCharacterDiariesData}}")
    assert json.loads(text) == {"X": 'say "{{Date}}"', "公共": "好", "空": "[空日记本内容为空]"}


def test_the_dump_of_all_notebooks_is_bounded(home: Home) -> None:
    for number in range(30):
        home.write(f"dailynote/{number}/a.txt", "x" * 1000)
    home.notebooks.max_chars = 1000
    assert len(home.text("{{AllCharacterDiariesData}}")) < 10 * 1000 + 30 * 250


def test_without_a_folder_there_are_no_notebooks(home: Home) -> None:
    (home.path / "dailynote").rmdir()
    assert home.text("{{X日记本}} {{AllCharacterDiariesData}}") == f"{MISSING} {{}}"


def test_an_identical_placeholder_is_read_once_and_put_in_everywhere(home: Home) -> None:
    home.write("dailynote/X/a.txt", "x")
    expanded = home.expand(
        [{"role": "system", "content": "{{X日记本}}{{X日记本}}"}, {"role": "developer", "content": "{{X日记本}}"}]
    )
    assert [message["content"] for message in expanded.messages] == ["xx", "x"]
    assert {piece.source for origin in expanded.origins for piece in origin[0].pieces} == {"diary:X"}
