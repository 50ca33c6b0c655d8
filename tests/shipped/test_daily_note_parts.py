"""The parts of DailyNoteWrite inside one process: settings, files, the tag request (memory.md 1.2, 1.4; B34)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from Plugin.DailyNoteWrite.daily_note.failure import NoteError
from Plugin.DailyNoteWrite.daily_note.note import Note, TagModel, read_note, read_settings
from Plugin.DailyNoteWrite.daily_note.storage import create_note, notebook_folder, replace_note
from Plugin.DailyNoteWrite.daily_note.tagging import NoTagsError, ask_for_tags, find_tags, read_prompt

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "DailyNoteWrite"
MOMENT = datetime(2025, 11, 27, 9, 5, 7)


# --- files -----------------------------------------------------------------------------------------------------------


def test_notes_of_the_same_second_are_numbered(tmp_path: Path) -> None:
    names = [create_note(tmp_path, "2025.11.27", MOMENT, "txt", f"note {number}").name for number in range(3)]
    stem = "2025-11-27-09_05_07"
    assert names == [f"{stem}.txt", f"{stem}_2.txt", f"{stem}_3.txt"]
    assert [(tmp_path / name).read_text("utf-8") for name in names] == ["note 0", "note 1", "note 2"]


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.parametrize("links", [True, False])
def test_many_writers_of_one_second_all_keep_their_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        refuse_links(monkeypatch)
    texts = [f"note {number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda text: create_note(tmp_path, "d", MOMENT, "txt", text), texts))
    assert [path.read_text("utf-8") for path in paths] == texts
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_another_error_of_linking_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="broken"):
        create_note(tmp_path, "d", MOMENT, "txt", "x")
    assert list(tmp_path.iterdir()) == []


def test_a_taken_name_that_is_a_dangling_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "d-09_05_07.txt").symlink_to(tmp_path / "gone")
    assert create_note(tmp_path, "d", MOMENT, "txt", "x").name == "d-09_05_07_2.txt"
    assert not (tmp_path / "gone").exists()


def test_a_note_is_replaced_only_while_it_says_what_was_written(tmp_path: Path) -> None:
    path = create_note(tmp_path, "d", MOMENT, "txt", "one")
    assert replace_note(path, "one", "two")
    assert not replace_note(path, "one", "three")
    assert path.read_text("utf-8") == "two"
    path.unlink()
    assert not replace_note(path, "two", "three")
    assert list(tmp_path.iterdir()) == []


def test_a_note_has_the_permissions_that_the_user_chose(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = create_note(tmp_path, "d", MOMENT, "txt", "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_existing_notebook_is_used(tmp_path: Path) -> None:
    first = notebook_folder(tmp_path / "dailynote", " 公共/ ")
    assert notebook_folder(tmp_path / "dailynote", "公共") == first == tmp_path / "dailynote" / "公共"


# --- arguments -------------------------------------------------------------------------------------------------------

NOTE = {"maidName": "Nova", "dateString": "2025.11.27", "contentText": "Walked."}


@pytest.mark.parametrize("maid", ["maidName", "maid", "Maid", "MAID"])
@pytest.mark.parametrize("date", ["dateString", "Date", "date"])
@pytest.mark.parametrize("content", ["contentText", "Content", "content"])
def test_every_name_of_an_argument_is_taken(maid: str, date: str, content: str) -> None:
    assert read_note(json.dumps({maid: "m", date: "d", content: "c"}).encode()) == Note("m", "d", "c")


def test_a_blank_name_does_not_hide_a_filled_one() -> None:
    assert read_note(json.dumps(NOTE | {"maidName": " ", "maid": "小克"}).encode()).maid == "小克"


@pytest.mark.parametrize("name", list(NOTE))
@pytest.mark.parametrize("value", ["", "  \n ", None])
def test_a_blank_field_is_named(name: str, value: object) -> None:
    with pytest.raises(NoteError, match=name):
        read_note(json.dumps(NOTE | {name: value}).encode())


@pytest.mark.parametrize("value", [["a"], {"a": 1}, True])
def test_a_field_that_is_no_text_is_named(value: object) -> None:
    with pytest.raises(NoteError, match="contentText"):
        read_note(json.dumps(NOTE | {"contentText": value}).encode())


def test_a_number_is_text() -> None:
    assert read_note(json.dumps(NOTE | {"dateString": 20251127}).encode()).date == "20251127"


@pytest.mark.parametrize("data", [b"{oops", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b"{}", b" \n"])
def test_input_that_is_no_note_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(NoteError):
        read_note(data)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h:1/v1/", "http://h:1"),
        ("http://h:1/api/v1", "http://h:1/api"),
    ],
)
def test_the_address_may_end_in_v1_or_a_slash(tmp_path: Path, given: str, base: str) -> None:
    model = read_settings(
        {"PROJECT_BASE_PATH": str(tmp_path), "API_URL": given, "API_Key": "k", "TagModel": "m"}
    ).tag_model
    assert model is not None and model.base_url == base


@pytest.mark.parametrize(
    ("given", "tokens", "warned"),
    [
        ("", 40000, False),
        ("77", 77, False),
        ("abc", 40000, True),
        ("0", 40000, True),
        ("-5", 40000, True),
        ("９", 40000, True),
    ],
)
def test_a_bad_token_limit_gives_the_default_and_a_warning(
    tmp_path: Path, given: str, tokens: int, warned: bool
) -> None:
    environment = {"PROJECT_BASE_PATH": str(tmp_path), "API_URL": "http://h", "API_Key": "k", "TagModel": "m"}
    settings = read_settings(environment | {"TagModelMaxTokens": given})
    assert settings.tag_model is not None and settings.tag_model.max_tokens == tokens
    assert bool(settings.warnings) is warned


# --- the tag request -------------------------------------------------------------------------------------------------


def ask(url: str, *, waits: list[float] | None = None, prompt: str = "TagMaster.txt", proxy: str | None = None) -> str:
    async def pause(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    return asyncio.run(ask_for_tags("text", TagModel(url, "k", "m", 10, prompt, proxy), PLUGIN, pause))


def test_the_tags_of_the_reply_are_normalised(tag_server: Any) -> None:
    tag_server.say("好的：[[tag：A，B、C]]")
    assert ask(tag_server.url) == "Tag: A, B, C"


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_fault_is_tried_three_times_with_growing_waits(tag_server: Any, status: int) -> None:
    tag_server.say("", status=status)
    waits: list[float] = []
    with pytest.raises(NoTagsError, match=f"3 times.*{status}"):
        ask(tag_server.url, waits=waits)
    assert len(tag_server.requests) == 3
    assert waits == [1.0, 2.0]


def test_the_third_answer_still_counts(tag_server: Any) -> None:
    tag_server.say("", status=500)
    tag_server.say("", status=503)
    tag_server.say("[[Tag: a]]")
    assert ask(tag_server.url) == "Tag: a"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 502])
def test_any_other_status_is_not_tried_again(tag_server: Any, status: int) -> None:
    tag_server.say("because", status=status)
    with pytest.raises(NoTagsError, match=f"{status}.*because"):
        ask(tag_server.url)
    assert len(tag_server.requests) == 1


def test_a_server_that_is_not_there_is_tried_three_times() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        waits: list[float] = []
        with pytest.raises(NoTagsError, match="3 times"):
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}", waits=waits)
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[{"message":{"content":null}}]}', b"[" * 100_000, b""],
)
def test_an_answer_that_is_no_completion_means_no_tags(tag_server: Any, answer: bytes) -> None:
    tag_server.answers.append((200, answer))
    with pytest.raises(NoTagsError):
        ask(tag_server.url)


def test_an_endless_answer_is_cut_off(tag_server: Any) -> None:
    tag_server.answers.append((200, b"x" * (2 * 1024 * 1024)))
    with pytest.raises(NoTagsError, match="1048576"):
        ask(tag_server.url)


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://h", "http://[::1", "http://h:99999"])
def test_an_address_that_is_none_means_no_tags(url: str) -> None:
    with pytest.raises(NoTagsError):
        ask(url)


def test_the_request_goes_through_the_proxy(tag_server: Any) -> None:
    tag_server.say("[[Tag: a]]")
    assert ask("http://tags.invalid", proxy=tag_server.url) == "Tag: a"
    assert tag_server.requests[0]["path"] == "http://tags.invalid/v1/chat/completions"


def test_a_proxy_that_is_none_means_no_tags() -> None:
    with pytest.raises(NoTagsError, match="proxy"):
        ask("http://h", proxy="nonsense://x")


@pytest.mark.parametrize(
    "reply", ["no tags here", "[[Tag: ]]", "[[Tag: ，]]", "[[Tag: a\nb]]", "[Tag: a]", "[[Tag: " + "a, " * 2000 + "]]"]
)
def test_a_reply_without_a_usable_tag_line_means_no_tags(reply: str) -> None:
    with pytest.raises(NoTagsError):
        find_tags(reply)


def test_the_first_tag_line_of_a_reply_counts() -> None:
    assert find_tags("[[Tag: a]] [[Tag: b]]") == "Tag: a"


@pytest.mark.parametrize("name", ["../SciCalculator/main.py", "/etc/hostname", "gone.txt", ".", "a\x00b"])
def test_the_prompt_file_must_be_a_file_of_the_plugin_folder(name: str) -> None:
    with pytest.raises(NoTagsError, match="TagModelPrompt"):
        read_prompt(PLUGIN, name)


@pytest.mark.parametrize(
    "write", [lambda path: path.write_bytes(b" \n"), lambda path: path.write_bytes(b"x" * 300_000)]
)
def test_an_empty_or_huge_prompt_file_is_refused(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / "p.txt")
    with pytest.raises(NoTagsError, match=r"p\.txt"):
        read_prompt(tmp_path, "p.txt")


def test_a_prompt_file_may_be_a_link_only_within_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(NoTagsError):
        read_prompt(folder, "link.txt")


def test_the_shipped_prompt_asks_for_the_form_that_is_read() -> None:
    assert find_tags(read_prompt(PLUGIN, "TagMaster.txt")).startswith("Tag: ")
