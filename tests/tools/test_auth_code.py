"""The hourly auth code (spec 7.3; S6, B11)."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from app.tools.auth_code import AuthCode, decode_auth_code


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
