"""Blocked addresses: ``ip_blacklist.json``, failing tool calls, wrong keys (spec 1.8; B8, P71)."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from app.config.live_file import LOOK_SECONDS
from app.web import blocking
from app.web.blocking import (
    KEY_BLOCK_SECONDS,
    KEY_FAILURES,
    KEY_WINDOW_SECONDS,
    MAX_FILE_BYTES,
    TOOL_FAILURES,
    TOOL_WINDOW_SECONDS,
    AddressBlocks,
    UnreadableListError,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def blocks_in(home: Path, clock: Clock | None = None, *, enabled: bool = True) -> AddressBlocks:
    return AddressBlocks(home / "ip_blacklist.json", enabled=lambda: enabled, clock=clock or Clock())


def fail(blocks: AddressBlocks, address: str, times: int) -> None:
    async def main() -> None:
        for _ in range(times):
            await blocks.tool_failed(address)

    asyncio.run(main())


def test_the_fifth_failing_call_blocks_for_good_and_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "ip_blacklist.json").write_text('["7.7.7.7"]', encoding="utf-8")
    clock = Clock()
    blocks = blocks_in(tmp_path, clock)
    fail(blocks, "9.9.9.9", TOOL_FAILURES - 1)
    assert not blocks.blocked("9.9.9.9")
    fail(blocks, "9.9.9.9", 1)
    assert blocks.blocked("9.9.9.9")
    assert json.loads((tmp_path / "ip_blacklist.json").read_text(encoding="utf-8")) == ["7.7.7.7", "9.9.9.9"]
    clock.now += 10 * 365 * 86_400
    assert blocks.blocked("9.9.9.9")
    assert blocks_in(tmp_path).blocked("9.9.9.9")
    assert not blocks.blocked("9.9.9.8")


def test_failures_are_forgotten_after_the_window(tmp_path: Path) -> None:
    clock = Clock()
    blocks = blocks_in(tmp_path, clock)
    fail(blocks, "9.9.9.9", TOOL_FAILURES - 1)
    clock.now += TOOL_WINDOW_SECONDS + 1
    fail(blocks, "9.9.9.9", TOOL_FAILURES - 1)
    assert not blocks.blocked("9.9.9.9")
    assert not (tmp_path / "ip_blacklist.json").exists()


def test_wrong_keys_block_for_a_while_and_leave_no_trace_in_the_file(tmp_path: Path) -> None:
    clock = Clock()
    blocks = blocks_in(tmp_path, clock)
    for _ in range(KEY_FAILURES - 1):
        blocks.wrong_key("9.9.9.9")
    clock.now += KEY_WINDOW_SECONDS + 1
    blocks.wrong_key("9.9.9.9")
    assert not blocks.blocked("9.9.9.9")
    for _ in range(KEY_FAILURES - 1):
        blocks.wrong_key("9.9.9.9")
    assert blocks.blocked("9.9.9.9")
    clock.now += KEY_BLOCK_SECONDS + 1
    assert not blocks.blocked("9.9.9.9")
    assert not (tmp_path / "ip_blacklist.json").exists()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_never_blocked_not_even_by_the_file(tmp_path: Path, address: str) -> None:
    (tmp_path / "ip_blacklist.json").write_text(json.dumps([address]), encoding="utf-8")
    blocks = blocks_in(tmp_path)
    fail(blocks, address, 3 * TOOL_FAILURES)
    for _ in range(3 * KEY_FAILURES):
        blocks.wrong_key(address)
    assert not blocks.blocked(address)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "ip_blacklist.json").write_text('["7.7.7.7"]', encoding="utf-8")
    blocks = blocks_in(tmp_path, enabled=False)
    fail(blocks, "9.9.9.9", 3 * TOOL_FAILURES)
    for _ in range(3 * KEY_FAILURES):
        blocks.wrong_key("9.9.9.9")
    assert not blocks.blocked("9.9.9.9")
    assert not blocks.blocked("7.7.7.7")
    assert (tmp_path / "ip_blacklist.json").read_text(encoding="utf-8") == '["7.7.7.7"]'


@pytest.mark.parametrize(
    "content",
    ['["7.7.7.7",', '{"7.7.7.7": 1}', "", "null", "[" * 100_000, '["7.7.7.7"]' + " " * MAX_FILE_BYTES],
    ids=["cut", "object", "empty", "null", "deep", "huge"],
)
def test_a_file_that_cannot_be_read_is_left_as_it_is(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ip_blacklist.json"
    path.write_text(content, encoding="utf-8")
    blocks = blocks_in(tmp_path)
    assert "ip_blacklist.json" in caplog.text
    fail(blocks, "9.9.9.9", TOOL_FAILURES)
    assert blocks.blocked("9.9.9.9")
    assert path.read_text(encoding="utf-8") == content


def test_entries_are_understood_in_any_spelling_and_odd_ones_do_no_harm(tmp_path: Path) -> None:
    entries = ["::ffff:1.2.3.4", " 5.6.7.8 ", "2001:DB8:0::1", None, 7, "nonsense", {"a": 1}]
    (tmp_path / "ip_blacklist.json").write_text("\ufeff" + json.dumps(entries), encoding="utf-8")
    blocks = blocks_in(tmp_path)
    assert [blocks.blocked(address) for address in ("1.2.3.4", "5.6.7.8", "2001:db8::1")] == [True] * 3


def test_a_home_that_cannot_be_written_still_blocks_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = AddressBlocks(tmp_path / "gone" / "ip_blacklist.json", enabled=lambda: True, clock=Clock())
    fail(blocks, "9.9.9.9", TOOL_FAILURES)
    assert blocks.blocked("9.9.9.9")
    assert [record.levelno for record in caplog.records][-1] == logging.ERROR


def test_neither_counts_nor_blocks_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "MAX_ADDRESSES", 3)
    blocks = blocks_in(tmp_path)
    for number in range(6):
        fail(blocks, f"9.9.9.{number}", TOOL_FAILURES)
        for _ in range(KEY_FAILURES):
            blocks.wrong_key(f"8.8.8.{number}")
    assert [blocks.blocked(f"9.9.9.{number}") for number in range(6)] == [True] * 3 + [False] * 3
    assert [blocks.blocked(f"8.8.8.{number}") for number in range(6)] == [False] * 3 + [True] * 3
    assert len(json.loads((tmp_path / "ip_blacklist.json").read_text(encoding="utf-8"))) == 3


def edit(home: Path, content: str) -> None:
    (home / "ip_blacklist.json").write_text(content, encoding="utf-8")


def test_editing_the_file_blocks_and_unblocks_while_the_server_runs(tmp_path: Path) -> None:
    clock = Clock()
    blocks = blocks_in(tmp_path, clock)
    fail(blocks, "9.9.9.9", TOOL_FAILURES)
    assert blocks.blocked("9.9.9.9")
    edit(tmp_path, '["8.8.8.8"]')
    assert blocks.blocked("9.9.9.9")  # it is not looked at for every request
    clock.now += LOOK_SECONDS
    assert not blocks.blocked("9.9.9.9")
    assert blocks.blocked("8.8.8.8")
    fail(blocks, "7.7.7.7", TOOL_FAILURES)
    assert json.loads((tmp_path / "ip_blacklist.json").read_text(encoding="utf-8")) == ["7.7.7.7", "8.8.8.8"]
    (tmp_path / "ip_blacklist.json").unlink()
    clock.now += LOOK_SECONDS
    assert not any(blocks.blocked(address) for address in ("7.7.7.7", "8.8.8.8", "9.9.9.9"))
    assert blocks.count() == 0


@pytest.mark.parametrize("half", ['["8.8.8.8", "7.', "", "{}"])
def test_a_half_written_file_leaves_the_last_list_in_force(
    tmp_path: Path, half: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    edit(tmp_path, '["8.8.8.8"]')
    blocks = blocks_in(tmp_path, clock)
    edit(tmp_path, half)
    for _ in range(3):
        clock.now += LOOK_SECONDS
        assert blocks.blocked("8.8.8.8")
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    fail(blocks, "9.9.9.9", TOOL_FAILURES)
    assert (tmp_path / "ip_blacklist.json").read_text(encoding="utf-8") == half
    edit(tmp_path, '["7.7.7.7"]')
    clock.now += LOOK_SECONDS
    assert [blocks.blocked(address) for address in ("7.7.7.7", "8.8.8.8", "9.9.9.9")] == [True, False, True]


def test_an_edit_of_the_last_moment_is_not_written_over(tmp_path: Path) -> None:
    blocks = blocks_in(tmp_path)
    edit(tmp_path, '["8.8.8.8"]')
    fail(blocks, "9.9.9.9", TOOL_FAILURES)
    assert json.loads((tmp_path / "ip_blacklist.json").read_text(encoding="utf-8")) == ["8.8.8.8", "9.9.9.9"]


def test_it_can_be_switched_on_and_off_while_the_server_runs(tmp_path: Path) -> None:
    on = [False]
    edit(tmp_path, '["8.8.8.8"]')
    blocks = AddressBlocks(tmp_path / "ip_blacklist.json", enabled=lambda: on[0], clock=Clock())
    assert not blocks.blocked("8.8.8.8")
    on[0] = True
    assert blocks.blocked("8.8.8.8")
    on[0] = False
    assert (blocks.blocked("8.8.8.8"), blocks.count()) == (False, 0)


def test_the_same_wrong_key_in_a_path_counts_once_in_a_row_and_guesses_count_each(tmp_path: Path) -> None:
    blocks = blocks_in(tmp_path)
    for _ in range(3 * KEY_FAILURES):
        blocks.wrong_stored_key("9.9.9.9", b"old")
    for number in range(KEY_FAILURES):
        blocks.wrong_stored_key("9.9.9.8", b"old" if number % 2 else b"other")
    assert [blocks.blocked(address) for address in ("9.9.9.9", "9.9.9.8")] == [False, True]


def unblock(blocks: AddressBlocks, address: str) -> bool:
    return asyncio.run(blocks.unblock(address))


def test_an_administrator_lets_addresses_come_again_and_their_failures_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "ip_blacklist.json").write_text('["7.7.7.7", "::ffff:8.8.8.8"]', encoding="utf-8")
    clock = Clock()
    blocks = blocks_in(tmp_path, clock)
    for _ in range(KEY_FAILURES):
        blocks.wrong_key("9.9.9.9")
    assert [(block.address, block.seconds) for block in blocks.blocks()] == [
        ("7.7.7.7", None),
        ("8.8.8.8", None),
        ("9.9.9.9", KEY_BLOCK_SECONDS),
    ]
    assert unblock(blocks, "7.7.7.7")
    assert unblock(blocks, "9.9.9.9")
    assert not unblock(blocks, "1.1.1.1")
    assert not blocks.blocked("7.7.7.7")
    assert not blocks.blocked("9.9.9.9")
    assert json.loads((tmp_path / "ip_blacklist.json").read_text()) == ["8.8.8.8"]
    for _ in range(KEY_FAILURES - 1):
        blocks.wrong_key("9.9.9.9")
    assert not blocks.blocked("9.9.9.9")


def test_a_list_that_cannot_be_read_or_written_keeps_its_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ip_blacklist.json"
    path.write_text('["7.7.7.7"]', encoding="utf-8")
    clock = Clock()
    blocks = blocks_in(tmp_path, clock)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            unblock(blocks, "7.7.7.7")
    assert blocks.blocked("7.7.7.7")
    path.write_text('["7.7.7.7"', encoding="utf-8")
    clock.now += 2 * LOOK_SECONDS
    with pytest.raises(UnreadableListError):
        unblock(blocks, "7.7.7.7")
    assert not blocks.readable
    assert blocks.blocked("7.7.7.7")
    assert path.read_text() == '["7.7.7.7"'


def test_nobody_is_listed_while_blocking_is_off(tmp_path: Path) -> None:
    (tmp_path / "ip_blacklist.json").write_text('["7.7.7.7"]', encoding="utf-8")
    assert blocks_in(tmp_path, enabled=False).blocks() == []
