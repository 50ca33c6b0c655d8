"""Renderings of a result (spec 4.5, 4.6, 4.9, 4.12, 4.13; D16, P14, P20)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.extend import CallOutcome, ErrorKind, ToolCall, ToolResult
from app.tools.rendering import (
    Profile,
    ResultFormat,
    model_parts,
    payload_content,
    result_object,
    show_vcp_block,
    visible_text,
)

AT = "2026-01-05T09:00:00.123+08:00"
PIC = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
NAMED = '来自工具 "T" 的结果:\n'
REFUSED = "[VCP] 错误：工具调用验证失败。您没有提供'tool_password'或'tool_password'不正确。请向用户询问正确的验证码。"


def at(text: str) -> str:
    return text.replace("%s", AT)


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def ok(structured: Any, *parts: dict[str, Any]) -> ToolResult:
    return ToolResult(structured=structured, parts=parts or None)


def bad(kind: ErrorKind, message: str) -> ToolResult:
    return ToolResult(error_kind=kind, message=message)


def outcome(result: ToolResult, maid: str | None = None) -> CallOutcome:
    return CallOutcome(ToolCall("c", "T", {}, maid=maid), result, 0.0)


def pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


STAMP = {"timestamp": AT}
RICH = {"content": [text_part("t"), PIC], "details": {"x": 1}}

OBJECTS = [
    (ok({"original_plugin_output": "hello"}), None, {"original_plugin_output": "hello", **STAMP}),
    (ok({"a": 1}), "Nova", {"a": 1, "MaidName": "Nova", **STAMP}),
    (ok({"timestamp": "old", "MaidName": "old"}), "Nova", {"timestamp": AT, "MaidName": "Nova"}),
    (ok({"MaidName": "kept"}), None, {"MaidName": "kept", **STAMP}),
    (ok({"MaidName": "kept"}), "", {"MaidName": "kept", **STAMP}),
    (ok({}), None, STAMP),
    (ok("plain"), None, {"original_plugin_output": "plain", **STAMP}),
    (ok(42), None, {"original_plugin_output": 42, **STAMP}),
    (ok(False), None, {"original_plugin_output": False, **STAMP}),
    (ok(None), "Nova", {"original_plugin_output": None, "MaidName": "Nova", **STAMP}),
    (ok([1, {"a": [2]}]), "Nova", [1, {"a": [2]}]),
    (ok([]), None, []),
    (ok(RICH, *RICH["content"]), "Nova", {**RICH, "MaidName": "Nova", **STAMP}),
    (bad(ErrorKind.PLUGIN, "bad"), "Nova", {"plugin_error": "bad", "MaidName": "Nova", **STAMP}),
    *[
        (bad(kind, "why"), None, {"plugin_execution_error": "why", **STAMP})
        for kind in ErrorKind
        if kind not in (ErrorKind.PLUGIN, ErrorKind.REJECTED, ErrorKind.UNANSWERED)
    ],
]


@pytest.mark.parametrize(("result", "maid", "expected"), OBJECTS)
def test_the_result_object_has_name_and_time(result: ToolResult, maid: str | None, expected: Any) -> None:
    before = repr(result)
    assert result_object(ToolCall("c", "T", {}, maid=maid), result, AT) == expected
    assert repr(result) == before  # the stamps are not put into the tool's own value


MODEL: list[tuple[str, ToolResult, list[Any], list[Any]]] = [
    (
        "object",
        ok({"a": {"b": ["汉", 1]}}),
        [NAMED + pretty({"a": {"b": ["汉", 1]}, **STAMP})],
        [pretty({"a": {"b": ["汉", 1]}, **STAMP})],
    ),
    ("array", ok([1, [2]]), [NAMED + pretty([1, [2]])], [pretty([1, [2]])]),
    (
        "string",
        ok("s"),
        [NAMED + pretty({"original_plugin_output": "s", **STAMP})],
        [pretty({"original_plugin_output": "s", **STAMP})],
    ),
    ("nothing", ok(None), [NAMED + "插件 T 执行完毕，但没有返回明确内容。"], ["(无返回内容)"]),
    ("empty object", ok({}), [NAMED + pretty(STAMP)], [pretty(STAMP)]),
    ("rich", ok(RICH, *RICH["content"]), [text_part("t"), PIC], [text_part("t"), PIC]),
    ("O4", ok({"content": [text_part("t")]}, text_part("t")), [text_part("t")], [text_part("t")]),
    (
        "plugin error",
        bad(ErrorKind.PLUGIN, '坏 "x"'),
        [NAMED + at('执行插件 T 时发生错误：{"plugin_error":"坏 \\"x\\"","timestamp":"%s"}')],
        [at('[错误] 执行错误: {"plugin_error":"坏 \\"x\\"","timestamp":"%s"}')],
    ),
    (
        "time limit",
        bad(ErrorKind.TIMEOUT, "t"),
        [NAMED + at('执行插件 T 时发生错误：{"plugin_execution_error":"t","timestamp":"%s"}')],
        [at('[错误] 执行错误: {"plugin_execution_error":"t","timestamp":"%s"}')],
    ),
    ("R20", bad(ErrorKind.UNKNOWN_TOOL, "x"), ['错误：未找到名为 "T" 的插件。'], ['[错误] 未找到名为 "T" 的插件']),
    ("password", bad(ErrorKind.REFUSED, REFUSED), [REFUSED], ["[错误] " + REFUSED]),
    ("limit", bad(ErrorKind.LIMIT, "too many"), ["too many"], ["[错误] too many"]),
]


@pytest.mark.parametrize(("result", "baseline", "head"), [row[1:] for row in MODEL], ids=[row[0] for row in MODEL])
def test_what_a_model_reads_in_both_profiles(result: ToolResult, baseline: list[Any], head: list[Any]) -> None:
    profiles: list[tuple[Profile, list[Any]]] = [("baseline", baseline), ("head", head)]
    for profile, expected in profiles:
        wanted = [text_part(part) if isinstance(part, str) else part for part in expected]
        assert model_parts(outcome(result), AT, ResultFormat(profile)) == wanted


def test_the_composed_example_of_the_specification() -> None:
    result = ok({"original_plugin_output": "###计算结果：2###，请将结果转告用户"})
    call = CallOutcome(ToolCall("c", "SciCalculator", {}, maid="Nova"), result, 0.0)
    (part,) = model_parts(call, AT, ResultFormat())
    assert json.dumps(part, ensure_ascii=False, separators=(",", ":")) == (
        r'{"type":"text","text":"来自工具 \"SciCalculator\" 的结果:\n{\n  \"original_plugin_output\": '
        r"\"###计算结果：2###，请将结果转告用户\",\n  \"MaidName\": \"Nova\",\n  \"timestamp\": "
        r'\"2026-01-05T09:00:00.123+08:00\"\n}"}'
    )


def test_a_round_is_one_list_of_parts_or_the_marked_text_of_the_later_profile() -> None:
    texts = [text_part("a"), text_part("汉")]
    mark = "<!-- VCP_TOOL_PAYLOAD -->"
    assert payload_content(texts, "baseline") == texts
    assert payload_content(texts, "head") == mark + '\n[{"type":"text","text":"a"},{"type":"text","text":"汉"}]'
    assert payload_content([*texts, PIC], "baseline") == [*texts, PIC]
    assert payload_content([*texts, PIC], "head") == [text_part(mark), *texts, PIC]
    assert payload_content([], "head") == mark + "\n[]"


NO_CONTENT = "插件执行完毕，但没有返回明确内容。"
VISIBLE: list[tuple[ToolResult, str]] = [
    (ok({"content": [text_part("a"), PIC, text_part("b")]}, text_part("a"), PIC, text_part("b")), "a\nb"),
    (ok({"content": [PIC]}, PIC), "[Rich Content with types: image_url]"),
    (ok({"result": "r", "message": "m"}), "r"),
    (ok({"result": {"x": 1}, "message": "m"}), "m"),
    (ok({"result": "", "message": "m"}), "m"),
    (ok({"message": "saved"}), "saved"),
    (ok({"original_plugin_output": "out", "content": "c"}), "out"),
    (ok({"original_plugin_output": "###计算结果：2###，请将结果转告用户"}), "2"),
    (ok({"original_plugin_output": "x ###计算结果：a b### y ###计算结果：c###"}), "a b"),
    (ok({"original_plugin_output": "###计算结果：2\n###"}), "###计算结果：2\n###"),
    (ok({"original_plugin_output": "###计算结果："}), "###计算结果："),
    (ok({"original_plugin_output": 42}), "42"),
    (ok(1.5), "1.5"),
    (ok(True), "true"),
    (ok("plain"), "plain"),
    (ok({"content": "c"}), "c"),
    (ok({"content": ["no part"]}), at('{"content":["no part"],"timestamp":"%s"}')),
    (ok({"a": "汉"}), at('{"a":"汉","timestamp":"%s"}')),
    (ok([1, "汉"]), '[1,"汉"]'),
    (ok([]), NO_CONTENT),
    (ok(None), NO_CONTENT),
    (bad(ErrorKind.PLUGIN, "bad"), at('执行插件 T 时发生错误：{"plugin_error":"bad","timestamp":"%s"}')),
    (bad(ErrorKind.UNKNOWN_TOOL, "x"), '错误：未找到名为 "T" 的插件。'),
    (bad(ErrorKind.REFUSED, REFUSED), REFUSED),
]


@pytest.mark.parametrize(("result", "shown"), VISIBLE)
def test_what_a_person_is_shown(result: ToolResult, shown: str) -> None:
    assert visible_text(outcome(result), AT) == shown


def test_the_block_in_a_reply_in_both_profiles() -> None:
    assert show_vcp_block(outcome(ok("2")), AT, "baseline") == (
        "\n[[VCP调用结果信息汇总:\n- 工具名称: T\n- 执行状态: ✅ SUCCESS\n- 返回内容: 2\n]]\n"
    )
    assert show_vcp_block(outcome(bad(ErrorKind.LIMIT, "no")), AT, "head") == (
        "\n[[VCP调用结果信息汇总:\n- 工具名称: T\n- 执行状态: ❌ ERROR\n- 返回内容: no\nVCP调用结果结束]]\n"
    )


def test_a_picture_is_never_in_what_people_see() -> None:
    rich = ok({"content": [text_part("t"), PIC]}, text_part("t"), PIC)
    assert "AAAA" not in visible_text(outcome(rich), AT)
    assert "AAAA" not in visible_text(outcome(ok({"content": [PIC]}, PIC)), AT)


def test_a_long_result_is_cut_visibly() -> None:
    (part,) = model_parts(outcome(ok("x" * 5000)), AT, ResultFormat(max_chars=100))
    kept, _, note = str(part["text"]).partition("\n[结果过长")
    assert kept == (NAMED + pretty({"original_plugin_output": "x" * 5000, **STAMP}))[:100]
    assert "100" in note and "cut" in note
    (whole,) = model_parts(outcome(ok([])), AT, ResultFormat(max_chars=len(NAMED) + 2))
    assert whole == text_part(NAMED + "[]")


def test_the_limit_holds_for_all_text_of_a_rich_result_together_and_leaves_pictures() -> None:
    parts = [text_part("a" * 60), PIC, text_part("b" * 60), PIC, text_part("c" * 60)]
    cut = model_parts(outcome(ok({"content": parts}, *parts)), AT, ResultFormat(max_chars=100))
    assert [part["type"] for part in cut] == ["text", "image_url", "text", "image_url"]
    assert cut[0] == text_part("a" * 60)
    assert str(cut[2]["text"]).startswith("b" * 40 + "\n[结果过长")
    exact = model_parts(outcome(ok({"content": parts}, *parts)), AT, ResultFormat(max_chars=180))
    assert exact == parts


@pytest.mark.parametrize("profile", ["baseline", "head"])
def test_a_rejection_says_that_a_person_said_no(profile: Profile) -> None:
    rejected = outcome(bad(ErrorKind.REJECTED, "no"), "Nova")
    value = {"plugin_error": "no", "error_type": "approval_rejected", "rejected_by_user": True, "MaidName": "Nova"}
    assert result_object(rejected.call, rejected.result, AT) == {**value, **STAMP}
    (part,) = model_parts(rejected, AT, ResultFormat(profile))
    assert '"rejected_by_user":true' in part["text"]
    unanswered = outcome(bad(ErrorKind.UNANSWERED, "late"))
    assert result_object(unanswered.call, unanswered.result, AT) == {
        "plugin_execution_error": "late",
        "error_type": "approval_timeout",
        **STAMP,
    }


def test_secrets_are_masked_before_a_model_reads_a_result_if_that_is_wanted() -> None:
    token = "sk-" + "a" * 20
    for result in (
        ok({"api_key": "x", "text": token}),
        ok(f"{token}"),
        ok(None, text_part(f"see {token}"), PIC),
        bad(ErrorKind.PLUGIN, f"failed with {token}"),
    ):
        told = str(model_parts(outcome(result), AT, ResultFormat(private=True)))
        assert token not in told and "'x'" not in told and "***" in told
        assert token in str(model_parts(outcome(result), AT, ResultFormat()))
    assert model_parts(outcome(ok(None, PIC)), AT, ResultFormat(private=True)) == [PIC]
