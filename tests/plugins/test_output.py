"""What plugins print, read as results (vectors 10.4; B26, B27, P38-P42, P49)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.extend import ErrorKind, ToolResult
from app.plugins.objects import last_object
from app.plugins.output import bad_output, read_answer, result_of_answer, stderr_text


def result(stdout: str | bytes, exit_code: int = 0, stderr: bytes = b"") -> ToolResult:
    data = stdout.encode("utf-8", "surrogatepass") if isinstance(stdout, str) else stdout
    answer = read_answer(data)
    tail = stderr_text(stderr)
    if answer is None:
        return bad_output("X", data, exit_code, tail)
    return result_of_answer("X", answer, exit_code, tail)


@pytest.mark.parametrize(
    ("stdout", "structured"),
    [
        ('{"status":"success","result":"hello"}', {"original_plugin_output": "hello"}),  # O1
        ('{"status":"success","result":"{\\"a\\":1}"}', {"a": 1}),  # O2
        ('{"status":"success","result":"42"}', {"original_plugin_output": 42}),  # O3
        ('{"status":"success","result":"null"}', {"original_plugin_output": None}),
        ('{"status":"success","result":"\\"q\\""}', {"original_plugin_output": "q"}),
        ('{"status":"success","result":"[1,2]"}', [1, 2]),
        ('{"status":"success","result":""}', {"original_plugin_output": ""}),
        ('{"status":"success","result":"NaN"}', {"original_plugin_output": "NaN"}),
        ('{"status":"success","result":"{oops"}', {"original_plugin_output": "{oops"}),
        ('{"status":"success","result":{"a":{"b":[]}}}', {"a": {"b": []}}),
        ('{"status":"success","result":[1]}', [1]),
        ('{"status":"success","result":5}', {"original_plugin_output": 5}),
        ('{"status":"success","result":false}', {"original_plugin_output": False}),
        ('{"status":"success","message":"saved"}', {"message": "saved"}),  # O5, B26
        ('{"status":"success","result":null,"message":"saved"}', {"message": "saved"}),
        ('{"status":"success"}', {}),
        ('\ufeff {"status":"success","result":"x"}\r\n', {"original_plugin_output": "x"}),
    ],
)
def test_success_becomes_the_result_object(stdout: str, structured: Any) -> None:
    got = result(stdout)
    assert got.ok
    assert got.structured == structured
    assert got.parts is None


def test_an_answer_counts_whatever_the_exit_code() -> None:  # O9, P40
    got = result('{"status":"success","result":"fine"}', exit_code=3, stderr=b"noise")
    assert got.ok
    assert (got.structured, got.exit_code, got.stderr_tail) == ({"original_plugin_output": "fine"}, 3, "noise")


def test_the_message_beside_a_result_is_kept_for_people() -> None:
    assert result('{"status":"success","result":"r","message":"note"}').message == "note"


TEXT_PART = {"type": "text", "text": "t"}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.mark.parametrize(
    "value",
    [
        {"content": [TEXT_PART, IMAGE_PART], "details": 1},  # O4, P20
        {"data": {"content": [TEXT_PART, IMAGE_PART]}},
        json.dumps({"content": [TEXT_PART, IMAGE_PART]}),  # P42
    ],
)
def test_content_lists_become_parts(value: Any) -> None:
    got = result(json.dumps({"status": "success", "result": value}))
    assert got.parts == (TEXT_PART, IMAGE_PART)


@pytest.mark.parametrize(
    "content",
    [
        [],
        "text",
        [{"name": "a.txt"}],
        [TEXT_PART, 5],
        [{"type": "file", "name": "a"}],
        [{"type": "text", "text": 5}],
        [TEXT_PART, {"type": "image_url", "image_url": None}],
    ],
)
def test_lists_that_only_happen_to_be_called_content_stay_data(content: Any) -> None:
    got = result(json.dumps({"status": "success", "result": {"content": content}}))
    assert got.parts is None
    assert got.structured == {"content": content}


@pytest.mark.parametrize(
    ("stdout", "message"),
    [
        ('{"status":"error","error":"bad"}', "bad"),  # O6, P39
        ('{"status":"error","message":"bad"}', "bad"),  # O7, B26
        ('{"status":"error","error":"","message":"m"}', "m"),
        ('{"status":"error","error":{"why":"汉"}}', '{"why":"汉"}'),
        ('{"status":"error"}', 'Plugin "X" reported an unspecified error.'),
    ],
)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_reported_error_is_an_error_with_its_text(stdout: str, message: str, exit_code: int) -> None:
    got = result(stdout, exit_code=exit_code)
    assert got.error_kind is ErrorKind.PLUGIN
    assert got.message == message


def test_a_failed_call_keeps_the_plugins_own_fields() -> None:
    got = result('{"status":"error","error":"e","code":"FILE_NOT_FOUND_LOCALLY","fileUrl":"file:///a"}')
    assert got.structured["code"] == "FILE_NOT_FOUND_LOCALLY"
    assert got.structured["fileUrl"] == "file:///a"


GOOD = '{"status":"success","result":{"n":{"deep":["}"]}}}'


@pytest.mark.parametrize(
    "stdout",
    [
        f"Loading model…\n{GOOD}",  # O8 as corrected by B27, P38
        f"{GOOD}\nbye",
        f"[INFO] start {{not json}} {GOOD} done {{",
        f"progress 10%\r{GOOD}",
        f"it's 5\" wide: {GOOD}",
        f'{{"progress": 1}}\n{{"status":"working"}}\n{GOOD}',
        f'{{"status":"error","error":"first try"}}\n{GOOD}\n{{"other":1}}',
        f"\x1b[32mINFO\x1b[0m {GOOD}\x1b[0m",
        f'{{"open": {{"a": 1}} log\n{GOOD}',
        f"text{{{{{GOOD}",
        f"log\n{json.dumps(json.loads(GOOD), indent=2)}\nend",
        f'{{"list": [{{"status":"error","error":"inner"}}]}} {GOOD}',
    ],
)
def test_the_last_answer_counts_between_other_lines(stdout: str) -> None:
    got = result(stdout)
    assert got.ok, got.message
    assert got.structured == {"n": {"deep": ["}"]}}


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "just text",
        '{"notation":"2d6"}',  # P41
        '{"status":"pending"}',
        '{"status":1}',
        '{"data":{"status":"success","result":"inner"}}',
        'log {"data":{"status":"success","result":"inner"}} log',
        '{"status":"success","result":{"status":"success"}',
        '[{"status":"success"',
        '{"status":"success","result":' + "[" * 5000 + "]" * 5000 + "}",
        '{"status":"success","result":' + "1" * 5000 + "}",
    ],
)
def test_anything_else_is_a_definite_error_that_quotes_it(stdout: str) -> None:
    got = result(stdout, stderr=b"\x1b[31mboom\x1b[0m\n")
    assert got.error_kind is ErrorKind.EXECUTION
    assert got.message == (
        'Plugin "X" exited successfully but did not provide a valid initial JSON response. '
        f"Stdout: {stdout[:200]} Stderr: boom"
    )


def test_a_list_of_answers_holds_an_answer() -> None:
    assert result('[{"status":"success","result":"a"},{"status":"success","result":"b"}]').structured == {
        "original_plugin_output": "b"
    }


def test_a_crash_names_code_and_outputs() -> None:  # O10
    got = result("", exit_code=2, stderr=b"boom\n")
    assert got.message == 'Plugin "X" exited with code 2. Stdout:  Stderr: boom'
    assert (got.exit_code, got.stderr_tail) == (2, "boom")
    assert "exited with code -9 (SIGKILL)" in result("", exit_code=-9).message


def test_only_the_end_of_a_long_stderr_is_kept() -> None:
    got = result("", exit_code=1, stderr=b"start" + b"x" * 5000 + b"the end")
    assert len(got.stderr_tail) == 2000
    assert got.message.endswith("the end")


def test_control_characters_and_colour_codes_do_not_spoil_an_answer() -> None:  # P49
    got = result('{"status":"success","result":"a\x1b[31mred\tb\\u001b[0m\\r\\nc"}')
    assert got.structured == {"original_plugin_output": "ared\tb\r\nc"}


def test_half_surrogates_and_bad_bytes_are_replaced() -> None:
    assert result('{"status":"success","result":"a\\ud83d"}').structured == {"original_plugin_output": "a\ufffd"}
    assert result('{"status":"success","result":"\\ud83d\\ude00"}').structured == {"original_plugin_output": "😀"}
    assert result(b'{"status":"success","result":"a\xff"}').structured == {"original_plugin_output": "a\ufffd"}


def test_numbers_that_json_has_no_words_for_arrive_as_words() -> None:
    assert result('{"status":"success","result":{"x":NaN}}').structured == {"x": "NaN"}
    assert result('{"status":"success","result":[1e999,-1e999,1e9]}').structured == [None, None, 1e9]
    assert result('{"status":"success","result":"[1e999]"}').structured == [None]


def test_a_cut_off_answer_does_not_give_way_to_something_inside_it() -> None:
    assert last_object(b'{"status":"success","result":{"status":"success","result":"inner"}') is None


@pytest.mark.parametrize(
    "noise",
    ["{" * 500_000, '{"' * 200_000, '{"a":' * 100_000, '{"a":[' * 100_000, '{"\\' * 200_000, "{}" * 100_000],
)
def test_hostile_noise_before_an_answer_costs_linear_time(noise: str) -> None:
    # A quadratic search would take hours here.
    assert result(noise + "\n" + GOOD).ok


def test_more_tokens_than_the_limit_still_give_the_last_line_a_chance() -> None:
    assert result("{}" * 1_500_000 + "\n" + GOOD).ok


LETTERS = "ab\\\"':,[]()1汉😀\t "
LINES = st.lists(st.text(LETTERS, max_size=30), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(LETTERS + "{}\n", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "status", "{"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(LINES, VALUES, LINES, st.sampled_from([None, 2]))
def test_an_answer_is_found_between_any_lines_without_braces(
    before: list[str], value: Any, after: list[str], indent: int | None
) -> None:
    body = json.dumps({"status": "success", "result": {"value": value}}, indent=indent, ensure_ascii=False)
    got = result("\n".join([*before, body, *after]))
    assert got.structured == {"value": value}


@given(st.text(st.sampled_from('{}[]":, ste\\u1\n'), max_size=60))
def test_the_search_never_falls_over_and_finds_only_objects(text: str) -> None:
    data = text.encode()
    span = last_object(data)
    if span is not None:
        assert data[span[0] : span[0] + 1] == b"{"
        assert data[span[1] - 1 : span[1]] == b"}"
