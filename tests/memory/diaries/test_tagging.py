"""The tagging model: its settings, its prompt, the request (memory.md 1.4, 10.5 G6)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.memory.diaries.tag_model import TagModel, read_tag_model
from app.memory.diaries.tagging import NoTagsError, ask_for_tags, find_tags, prompt_folders, read_prompt

PLUGIN = Path(__file__).resolve().parents[3] / "Plugin" / "DailyNoteWrite"


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
def test_the_address_may_end_in_v1_or_a_slash(given: str, base: str) -> None:
    model, _, _ = read_tag_model({"API_URL": given, "API_Key": "k", "TagModel": "m"})
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
def test_a_bad_token_limit_gives_the_default_and_a_warning(given: str, tokens: int, warned: bool) -> None:
    environment = {"API_URL": "http://h", "API_Key": "k", "TagModel": "m"}
    model, _, warnings = read_tag_model(environment | {"TagModelMaxTokens": given})
    assert model is not None and model.max_tokens == tokens
    assert bool(warnings) is warned


# --- the tag request -------------------------------------------------------------------------------------------------


def ask(url: str, *, waits: list[float] | None = None, prompt: str = "TagMaster.txt", proxy: str | None = None) -> str:
    async def pause(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    return asyncio.run(ask_for_tags("text", TagModel(url, "k", "m", 10, prompt, proxy), [PLUGIN], pause))


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
        read_prompt([PLUGIN], name)


@pytest.mark.parametrize(
    "write", [lambda path: path.write_bytes(b" \n"), lambda path: path.write_bytes(b"x" * 300_000)]
)
def test_an_empty_or_huge_prompt_file_is_refused(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / "p.txt")
    with pytest.raises(NoTagsError, match=r"p\.txt"):
        read_prompt([tmp_path], "p.txt")


def test_a_prompt_file_may_be_a_link_only_within_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(NoTagsError):
        read_prompt([folder], "link.txt")


def test_the_shipped_prompt_asks_for_the_form_that_is_read() -> None:
    assert find_tags(read_prompt([PLUGIN], "TagMaster.txt")).startswith("Tag: ")


def test_g6_the_tag_line_of_a_reply_is_found_between_other_words() -> None:
    assert find_tags("xx [[Tag: A, B]] yy") == "Tag: A, B"


def test_a_plugin_without_a_prompt_of_its_own_uses_that_of_daily_note_write() -> None:
    folders = prompt_folders(PLUGIN.parent / "DailyNote")
    assert read_prompt(folders, "TagMaster.txt") == read_prompt([PLUGIN], "TagMaster.txt")
