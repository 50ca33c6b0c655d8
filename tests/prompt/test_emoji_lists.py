"""``{{X表情包}}``: the lists in ``generated_lists/`` (spec 3.2 phase B; H13, B29, B3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.prompt.emoji_lists import LISTS_FOLDER, EmojiListSource
from app.prompt.files import TextFiles
from app.prompt.settings import PromptSettings
from tests.prompt.installation import NOW, Home


def expanded(home: Home, text: str, settings: PromptSettings | None = None, **options: str) -> str:
    source = EmojiListSource(TextFiles(home.path / LISTS_FOLDER, lambda: NOW))
    return home.text(text, settings, sources=[source], **options)


def write(home: Home, name: str, text: str) -> Path:
    return home.write(f"{LISTS_FOLDER.as_posix()}/{name}.txt", text)


def test_a_list_is_put_in_by_its_full_name(home: Home) -> None:
    write(home, "通用表情包", "a.png|b.gif\n")
    assert expanded(home, "<{{通用表情包}}>") == "<a.png|b.gif>"


def test_h13_what_stands_before_it_on_the_line_is_not_swallowed(home: Home) -> None:
    write(home, "通用表情包", "a.png")
    assert expanded(home, "{{Date}} {{通用表情包}} {{表情包}} {{ab") == "2026/1/5 a.png {{表情包}} {{ab"


@pytest.mark.parametrize("folder", [True, False])
def test_unknown_and_empty_lists_have_their_text(home: Home, folder: bool) -> None:
    if folder:
        write(home, "空表情包", "\n")
    assert expanded(home, "{{通用表情包}}{{空表情包}}") == "[通用表情包列表不可用][空表情包列表不可用]"


def test_b29_lists_are_read_again_when_they_change(home: Home) -> None:
    source = EmojiListSource(TextFiles(home.path / LISTS_FOLDER))
    assert home.text("{{X表情包}}", sources=[source]) == "[X表情包列表不可用]"
    for text in ("a.png", "b.png", "a.png|b.png"):
        write(home, "X表情包", text)
        assert home.text("{{X表情包}}", sources=[source]) == text
    write(home, "X表情包", "").unlink()
    assert home.text("{{X表情包}}", sources=[source]) == "[X表情包列表不可用]"


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_only_system_text_asks_for_lists(home: Home, role: str) -> None:
    write(home, "X表情包", "a.png")
    assert expanded(home, "[系统]{{X表情包}}", role=role) == "[系统]{{X表情包}}"


def test_lists_are_data_and_variables_may_name_them(home: Home) -> None:
    write(home, "X表情包", "{{VarA}}|$&|{{Date}}.png")
    settings = PromptSettings(variables=(("VarA", "{{X表情包}}"), ("VarName", "X")))
    assert expanded(home, "{{VarA}}", settings) == "{{VarA}}|$&|{{Date}}.png"
    assert expanded(home, "{{{{VarName}}表情包}}", settings) == "{{VarA}}|$&|{{Date}}.png"


@pytest.mark.parametrize("name", ["../", "a/", "a\\", "..\\", "a\0", "n" * 3000, "\ud800", "/etc/"])
def test_b3_names_that_are_no_file_of_the_folder_are_unknown(home: Home, name: str) -> None:
    for place in ("", "a/"):
        write(home, f"{place}表情包", "secret")
    home.write(f"{LISTS_FOLDER.parent.as_posix()}/表情包.txt", "secret")
    assert expanded(home, "{{" + name + "表情包}}") == f"[{name}表情包列表不可用]"


def test_b3_links_that_lead_out_and_pipes_are_not_read(home: Home) -> None:
    secret = home.write("secret.txt", "secret")
    lists = home.path / LISTS_FOLDER
    lists.mkdir(parents=True)
    (lists / "X表情包.txt").symlink_to(secret)
    os.mkfifo(lists / "Y表情包.txt")
    (lists / "Z表情包.txt").mkdir()
    assert expanded(home, "{{X表情包}}{{Y表情包}}{{Z表情包}}") == "".join(f"[{name}表情包列表不可用]" for name in "XYZ")
