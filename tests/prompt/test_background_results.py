"""``{{VCP_ASYNC_RESULT::P::id}}`` over real files (spec 3.6, C14; D9, D31, B3, P52)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from app.prompt.background_results import BackgroundResultSource
from app.prompt.settings import DetectorRule, PromptSettings
from app.tools import background_results
from app.tools.background_results import BackgroundResults, Retention
from tests.prompt.installation import Home, static_source

SHOWN = "{{VCP_ASYNC_RESULT::P::7}}"


def source(home: Home, max_chars: int = 1000) -> BackgroundResultSource:
    results = BackgroundResults(home.path / "VCPAsyncResults", home.path / "own", Retention, time.time)
    return BackgroundResultSource(results, lambda: max_chars)


def stored(home: Home, body: Any, name: str = "P-7.json") -> Path:
    return home.write(f"VCPAsyncResults/{name}", body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_a_result_stands_in_messages_of_every_role(home: Home, role: str) -> None:
    stored(home, {"message": "done"})
    text = home.text(f"a {SHOWN} b {SHOWN} {{{SHOWN}}}", role=role, sources=[source(home)])
    assert text == "a done b done done"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(None, "[任务 P (ID: 7) 结果待更新...]", id="H19 no file"),
        pytest.param('{"message":', "[获取任务 P (ID: 7) 结果时出错]", id="half written"),
        pytest.param('{"a":NaN}', "[获取任务 P (ID: 7) 结果时出错]", id="no JSON"),
        pytest.param("[" * 100_000, "[获取任务 P (ID: 7) 结果时出错]", id="too deep"),
        pytest.param("", "[获取任务 P (ID: 7) 结果时出错]", id="empty"),
        pytest.param('\ufeff{"message":"bom"}', "bom", id="byte-order mark"),
        pytest.param('{"status":"Failed","reason":"quota"}', "任务 P (ID: 7) 处理失败。原因: quota", id="P52 failed"),
    ],
)
def test_what_the_file_holds_decides_the_text(home: Home, content: str | None, text: str) -> None:
    if content is not None:
        stored(home, content)
    assert home.text(SHOWN, sources=[source(home)]) == text


def test_a_file_that_is_not_utf8_is_an_error_text_and_not_an_error(home: Home) -> None:
    stored(home, {}).write_bytes(b'{"message":"\xff"}')
    assert home.text(SHOWN, sources=[source(home)]) == "[获取任务 P (ID: 7) 结果时出错]"


def test_a_result_is_data_neither_expanded_nor_searched_nor_detected(home: Home) -> None:  # D9, D31
    body = {"message": "{{Date}} {{VarX}} {{VCP_ASYNC_RESULT::P::7}} secret $& \\1"}
    stored(home, body)
    settings = PromptSettings(
        variables=(("VarX", "x"),),
        detectors=(DetectorRule("Detector1", "secret", "gone"),),
        super_detectors=(DetectorRule("SuperDetector1", "secret", "gone"),),
    )
    assert home.text(f"secret {SHOWN}", settings, sources=[source(home)]) == "gone " + body["message"]


def test_a_placeholder_inside_other_data_is_left_alone(home: Home) -> None:
    stored(home, {"message": "done"})
    assert home.text("{{A}}", sources=[static_source(A=SHOWN), source(home)]) == SHOWN


def test_a_placeholder_of_the_operators_own_text_is_filled(home: Home) -> None:
    stored(home, {"message": "done"})
    settings = PromptSettings(variables=(("VarX", SHOWN),))
    assert home.text("{{VarX}}", settings, sources=[source(home)]) == "done"


def test_a_long_result_is_cut_visibly(home: Home) -> None:
    stored(home, {"message": "汉" * 5000})
    text = home.text(SHOWN, sources=[source(home, max_chars=1000)])
    assert text.startswith("汉" * 1000 + "\n[结果过长，已截断")
    assert len(text) < 1100


def test_a_link_that_leads_out_of_the_folder_is_not_read(home: Home) -> None:  # B3
    home.write("secret.json", '{"message":"secret"}')
    (home.path / "VCPAsyncResults").mkdir()
    (home.path / "VCPAsyncResults" / "P-7.json").symlink_to(home.path / "secret.json")
    assert home.text(SHOWN, sources=[source(home)]) == "[获取任务 P (ID: 7) 结果时出错]"


def test_a_pipe_or_a_folder_of_that_name_holds_up_nothing(home: Home) -> None:
    folder = home.path / "VCPAsyncResults"
    (folder / "P-8.json").mkdir(parents=True)
    os.mkfifo(folder / "P-7.json")
    text = home.text(SHOWN + "{{VCP_ASYNC_RESULT::P::8}}", sources=[source(home)])
    assert text == "[获取任务 P (ID: 7) 结果时出错][获取任务 P (ID: 8) 结果时出错]"


def test_a_file_over_the_limit_is_not_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_results, "MAX_FILE_BYTES", 1000)
    stored(home, {"message": "x" * 2000})
    assert home.text(SHOWN, sources=[source(home)]) == "[获取任务 P (ID: 7) 结果时出错]"


def test_a_new_result_is_in_the_next_chat(home: Home) -> None:
    for message in ("half", "done"):
        stored(home, {"message": message})
        assert home.text(SHOWN, sources=[source(home)]) == message
