"""The vectors of vcp-core 10.3 as corrected by D7, D8 and D21."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.config.families import DetectorRule, SarRule
from app.extend import ToolCommand, ToolSpec
from app.prompt.settings import PromptSettings
from tests.prompt.installation import Home, async_source, emoji_source, static_source

SAR = PromptSettings(sar=(SarRule("1", ("gpt-x", " GPT-Y "), "hi"),))


@pytest.mark.parametrize(
    ("variables", "text", "expected"),
    [
        pytest.param((("VarA", "[{{VarB}}]"), ("VarB", "b")), "{{VarA}}", "[b]", id="H1"),
        pytest.param((("VarB", "b"), ("VarA", "[{{VarB}}]")), "{{VarA}}", "[{{VarB}}]", id="H2"),
        pytest.param((("VarE", ""),), "{{VarE}}", "[未配置 VarE]", id="H3"),
        pytest.param((("VarF", "none.txt"),), "{{VarF}}", "[变量文件 (none.txt) 未找到]", id="H4"),
        pytest.param((("VarP", "x$$y$&z"),), "{{VarP}}", "x$$y$&z", id="H20"),
    ],
)
def test_variables_are_replaced_in_environment_order(
    home: Home, variables: tuple[tuple[str, str], ...], text: str, expected: str
) -> None:
    assert home.text(text, PromptSettings(variables=variables)) == expected


@pytest.mark.parametrize(
    ("role", "model", "text", "expected"),
    [
        pytest.param("system", "gpt-y", "{{SarPrompt1}}", "hi", id="H5"),
        pytest.param("system", "other", "{{SarPrompt1}}", "", id="H5 other model"),
        pytest.param("system", "gpt-y", "a{{SarPrompt2}}b", "ab", id="H5 no such rule"),
        pytest.param("developer", "GPT-X", "<<SarPrompt1>>", "hi", id="H5 developer, D17"),
        pytest.param("user", "gpt-y", "[系统提示:]{{SarPrompt1}}", "[系统提示:]hi", id="H6"),
        pytest.param("user", "gpt-y", "hello {{SarPrompt1}}", "hello {{SarPrompt1}}", id="H6 plain user text"),
        pytest.param("assistant", "gpt-y", "[系统提示:]{{SarPrompt1}}", "[系统提示:]{{SarPrompt1}}", id="H6 assistant"),
    ],
)
def test_sar_prompts_depend_on_model_and_role(home: Home, role: str, model: str, text: str, expected: str) -> None:
    assert home.text(text, SAR, role=role, model=model) == expected


def test_h7_a_later_detector_sees_what_an_earlier_one_put_in(home: Home) -> None:
    rules = (DetectorRule("Detector1", "foo", "bar"), DetectorRule("Detector2", "bar", "baz"))
    assert home.text("foo", PromptSettings(detectors=rules)) == "baz"


def test_h8_super_detectors_work_in_every_role_and_detectors_in_system_text(home: Home) -> None:
    settings = PromptSettings(
        detectors=(DetectorRule("Detector1", "a", "b"),), super_detectors=(DetectorRule("SuperDetector1", "……", "…"),)
    )
    assert home.text("a……", settings, role="assistant") == "a…"
    assert home.text("a……", settings, role="tool") == "a…"
    assert home.text("a……", settings, role="user") == "a…"
    assert home.text("a……", settings) == "b…"


def test_h9_user_text_keeps_variables_and_dates(home: Home) -> None:
    text = "{{VarB}} {{Date}} {{VCPAllTools}} {{Port}} {{公共日记本}}"
    assert home.text(text, PromptSettings(variables=(("VarB", "b"),), port=1), role="user") == text


def test_h10_agents_in_user_text_need_the_setting(home: Home) -> None:
    home.agents(Nova="I {{VarB}}")
    variables = (("VarB", "b"),)
    assert home.text("{{Nova}}", PromptSettings(variables=variables), role="user") == "{{Nova}}"
    settings = PromptSettings(variables=variables, expand_agents_in_all_roles=True)
    assert home.text("{{Nova}}", settings, role="user") == "I {{VarB}}"
    assert home.text("{{agent:Nova}}", settings, role="assistant") == "I {{VarB}}"
    assert home.text("{{Nova}}", settings) == "I b"


def test_h11_agents_that_include_each_other_end_in_one_error_text(home: Home) -> None:
    home.agents(A="a[{{B}}]", B="b[{{A}}] and on")
    expected = "x a[b[[Error: Circular agent reference detected for 'A']] and on] y"
    assert home.text("x {{A}} y") == expected


def test_h12_agent_aliases_may_be_in_any_script(home: Home) -> None:
    home.write("Agent/k.md", "我是小克")
    home.write("agent_map.json", '{"小克": "k.md", "Nova-2 b.c": "k.md"}')
    assert home.text("{{小克}}|{{agent:小克}}|{{Nova-2 b.c}}") == "我是小克|我是小克|我是小克"


def test_h13_a_placeholder_ends_at_its_own_braces(home: Home) -> None:
    assert home.text("{{Date}} {{通用表情包}}", sources=[emoji_source(通用="a.png|b.png")]) == "2026/1/5 a.png|b.png"


def test_h14_static_values_replace_the_braces_too(home: Home) -> None:
    source = static_source(VCPWeatherInfo="Sunny", VCPForum="f", VCPForumLister="fl")
    assert home.text("VCPWeatherInfo {{VCPWeatherInfo}}", sources=[source]) == "VCPWeatherInfo Sunny"
    assert home.text("{{VCPForumLister}}{{VCPForum}}", sources=[source]) == "flf"


def test_h15_dates_are_those_of_the_zone(home: Home) -> None:
    assert home.text("{{Date}} {{Time}} {{Today}}") == "2026/1/5 01:02:03 星期一"


def test_h16_the_festival_names_lunar_date_and_solar_term(home: Home) -> None:
    noon = datetime(2025, 12, 21, 4, tzinfo=UTC).timestamp()
    assert home.text("{{Festival}}", now=noon) == "乙巳蛇年冬月初二 冬至"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("done", "done", id="H17"),
        pytest.param("任务 P (ID: 7) 处理失败。原因: quota", "任务 P (ID: 7) 处理失败。原因: quota", id="H18"),
        pytest.param("任务 P (ID: 7) 结果待更新...", "任务 P (ID: 7) 结果待更新...", id="H19"),
    ],
)
def test_async_results_come_in_every_role(home: Home, text: str, result: str) -> None:
    for role in ("system", "developer", "user", "assistant", "tool"):
        source = async_source(**{"7": text})
        assert home.text("a {{VCP_ASYNC_RESULT::P::7}} b", role=role, sources=[source]) == f"a {result} b"


def test_h21_the_media_switch_is_taken_out_of_the_first_message_only(home: Home) -> None:
    expanded = home.expand(
        [
            {"role": "assistant", "content": "{{ShowBase64}}"},
            {"role": "user", "content": "1{{ShowBase64}}{{ShowBase64}}"},
            {"role": "assistant", "content": "2"},
            {"role": "user", "content": "3{{ShowBase64}}"},
        ]
    )
    assert [message["content"] for message in expanded.messages] == ["{{ShowBase64}}", "1", "2", "3{{ShowBase64}}"]
    assert not expanded.media


def test_h22_a_tool_description_is_the_four_line_block(home: Home) -> None:
    echo = ToolSpec("Echo", "local", "回声", (ToolCommand("say", "say", "Repeats text.\nArgs: text", "E1"),))
    expected = "- 回声 (Echo) - 命令: say:\n    Repeats text.\n    Args: text\n  调用示例:\n    E1"
    assert home.text("{{VCPEcho}}", tools={"Echo": echo}) == expected
