"""Placeholder, file name and texts of background results (spec 1.10, 3.6; B3, P52, P53)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.background_results import FILE_NAME_BYTES, PLACEHOLDER, placeholder, result_file, result_text

HEAD = "任务 P (ID: 7)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{VCP_ASYNC_RESULT::P::7}}", ["{{VCP_ASYNC_RESULT::P::7}}"]),
        ("{{{VCP_ASYNC_RESULT::P::7}}}", ["{{{VCP_ASYNC_RESULT::P::7}}}"]),
        ("{{{{VCP_ASYNC_RESULT::P::7}}}}", ["{{{{VCP_ASYNC_RESULT::P::7}}}}"]),
        ("{{{{{VCP_ASYNC_RESULT::P::7}}}}}", ["{{{{VCP_ASYNC_RESULT::P::7}}}}"]),
        ('{"a":{{VCP_ASYNC_RESULT::P::7}}}', ["{{VCP_ASYNC_RESULT::P::7}}"]),
        ("{{{VCP_ASYNC_RESULT::P::7}}", ["{{VCP_ASYNC_RESULT::P::7}}"]),
        ("{VCP_ASYNC_RESULT::P::7}", []),
        ("{{vcp_async_result::P::7}}", []),
        ("{{VCP_ASYNC_RESULT::P::}}", []),
        ("{{VCP_ASYNC_RESULT::P P::7}}", []),
        ("{{VCP_ASYNC_RESULT::P::7.1}}", []),
        ("{{VCP_ASYNC_RESULT::P::../7}}", []),
        ("{{VCP_ASYNC_RESULT::Wan2.1VideoGen::abc-1}}", ["{{VCP_ASYNC_RESULT::Wan2.1VideoGen::abc-1}}"]),
    ],
)
def test_two_to_four_braces_are_the_placeholder_and_as_many_are_taken_on_either_side(
    text: str, found: list[str]
) -> None:
    assert [match[0] for match in PLACEHOLDER.finditer(text)] == found


def test_the_groups_are_plugin_and_id_whatever_the_braces() -> None:
    for braces in (2, 3, 4):
        match = PLACEHOLDER.search("{" * braces + "VCP_ASYNC_RESULT::My.Plugin-1_x::id_-9" + "}" * braces)
        assert match is not None
        assert match.groups()[:2] == ("My.Plugin-1_x", "id_-9")
    assert PLACEHOLDER.fullmatch(placeholder("P", "7"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param({"message": "done"}, "done", id="H17"),
        pytest.param({"message": "m", "status": "Failed", "reason": "r"}, "m", id="a message beats the status"),
        pytest.param({"message": {"a": "文"}}, '{"a":"文"}', id="a message that is no text"),
        pytest.param(
            {"message": "", "status": "Succeed", "data": {"u": 1}}, f'{HEAD} 已成功完成。详情: {{"u":1}}', id="data"
        ),
        pytest.param({"status": "Succeed", "result": [1, "文"]}, f'{HEAD} 已成功完成。详情: [1,"文"]', id="result"),
        pytest.param({"status": "Succeed", "data": {}}, f"{HEAD} 已成功完成。详情: {{}}", id="empty data is truthy"),
        pytest.param(
            {"status": "Succeed", "data": None},
            f'{HEAD} 已成功完成。详情: {{"status":"Succeed","data":null}}',
            id="all",
        ),
        pytest.param({"status": "Failed", "reason": "quota"}, f"{HEAD} 处理失败。原因: quota", id="H18"),
        pytest.param({"status": "Failed", "data": {"c": 3}}, f'{HEAD} 处理失败。原因: {{"c":3}}', id="failed data"),
        pytest.param({"status": "Failed", "error": "e"}, f'{HEAD} 处理失败。原因: "e"', id="failed error"),
        pytest.param({"status": "Failed"}, f'{HEAD} 处理失败。原因: {{"status":"Failed"}}', id="failed all"),
        pytest.param({"status": "succeed"}, f"[{HEAD} 已完成]", id="another status"),
        pytest.param({}, f"[{HEAD} 已完成]", id="empty"),
        pytest.param([1], f"[{HEAD} 已完成]", id="list"),
        pytest.param(None, f"[{HEAD} 已完成]", id="null"),
        pytest.param("text", f"[{HEAD} 已完成]", id="text"),
    ],
)
def test_every_row_of_the_table_to_the_byte(body: Any, text: str) -> None:  # spec 3.6
    assert result_text("P", "7", body) == text


@pytest.mark.parametrize(
    ("plugin", "task"),
    [
        ("P", ""),
        ("", "7"),
        ("P", "../7"),
        ("P", "a/b"),
        ("P", "a\\b"),
        ("P", "a\0b"),
        ("P", "a\nb"),
        ("P", "."),
        ("P", ".."),
        ("P", ".hidden"),
        ("P", "a."),
        ("P", "a:stream"),
        ("P", "\ud800"),
        ("P", "x" * FILE_NAME_BYTES),
        ("汉" * 70, "7"),
        ("../P", "7"),
        ("a/P", "7"),
        (".P", "7"),
    ],
)
def test_what_is_no_plain_file_name_has_no_file(plugin: str, task: str) -> None:  # B3
    assert result_file(plugin, task) is None


def test_names_of_real_plugins_have_files() -> None:  # P53
    assert result_file("Wan2.1VideoGen", "abc-1") == "Wan2.1VideoGen-abc-1.json"
    assert result_file("视频", "v1..2") == "视频-v1..2.json"


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_file_name_is_one_component_whatever_the_input(plugin: str, task: str) -> None:
    name = result_file(plugin, task)
    if name is not None:
        assert not {"/", "\\", "\0"} & set(name)
        assert name.endswith(".json")
        assert not name.startswith(".")
        assert len(name.encode()) <= FILE_NAME_BYTES
