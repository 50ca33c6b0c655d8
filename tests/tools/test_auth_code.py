"""The hourly auth code (spec 7.3; S6, B11)."""

from __future__ import annotations

import base64
import errno
import os
import random
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.auth_code import AuthCode, decode_auth_code, encode_auth_code, write_auth_code


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param("W1tdezw+Pu+8iO+8ieOAiuOAkOOAkeOAkQ==", "313213", id="S6"),
        pytest.param("W1tdezw+Pu+8iO+8ieOAiuOAkOOAkeOAkQ==\r\n", "313213", id="line end behind it"),
        pytest.param(encoded("】[a中(》<"), "101011", id="shuffled, other characters ignored"),
        pytest.param(encoded("[" * 12 + "{"), "1210000", id="a count above nine gives more digits"),
        pytest.param(encoded(""), None, id="empty"),
        pytest.param(encoded("()"), None, id="no brackets of ours"),
        pytest.param("not base64!", None, id="no base64"),
        pytest.param("W1tdezw", None, id="cut"),
        pytest.param(base64.b64encode(b"\xff\xfe").decode(), None, id="no UTF-8"),
        pytest.param("码", None, id="no ASCII"),
    ],
)
def test_digits_are_counts_of_bracket_pairs(content: str, code: str | None) -> None:
    assert decode_auth_code(content) == code


def test_the_file_is_read_anew_each_time_and_no_file_is_no_code(tmp_path: Path) -> None:
    read = AuthCode(tmp_path)
    assert read() is None
    folder = tmp_path / "Plugin" / "UserAuth"
    folder.mkdir(parents=True)
    for text, code in [("[[]", "300000"), ("{", "010000")]:
        (folder / "code.bin").write_text(encoded(text), encoding="ascii")
        assert read() == code
    (folder / "code.bin").write_bytes(b"\xff" * 200_000)
    assert read() is None
    (folder / "code.bin").unlink()
    (folder / "code.bin").mkdir()
    assert read() is None


@given(st.integers(100_000, 999_999), st.integers())
def test_every_code_is_read_as_it_was_written(code: int, seed: int) -> None:
    content = encode_auth_code(code, random.Random(seed))
    assert decode_auth_code(content) == str(code)
    brackets = base64.b64decode(content).decode()
    assert len(brackets) == sum(int(digit) for digit in str(code))
    assert set(brackets) <= set("[]{}<>（）《》【】")


def test_b11_codes_are_shuffled_and_drawn_from_the_whole_range() -> None:
    class Highest(random.Random):
        def randint(self, a: int, b: int) -> int:
            assert (a, b) == (100_000, 999_999)
            return b

    contents = {encode_auth_code(999_999, Highest(seed)) for seed in range(20)}
    assert len(contents) == 20


def test_b11_a_new_code_replaces_the_old_one_whole_and_is_for_its_owner_only(tmp_path: Path) -> None:
    read = AuthCode(tmp_path)
    seen = set()
    for _ in range(5):
        path = write_auth_code(tmp_path)
        assert path == tmp_path / "Plugin" / "UserAuth" / "code.bin"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        code = read()
        assert code is not None
        assert re.fullmatch(r"[1-9][0-9]{5}", code)
        seen.add(code)
        assert [entry.name for entry in path.parent.iterdir()] == ["code.bin"]
    assert len(seen) > 1


def test_a_full_disk_leaves_the_code_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_auth_code(tmp_path)
    before = AuthCode(tmp_path)()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        write_auth_code(tmp_path)
    assert AuthCode(tmp_path)() == before
    assert len(list((tmp_path / "Plugin" / "UserAuth").iterdir())) == 1
