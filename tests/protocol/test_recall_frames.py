"""Frames of recalled text, to the byte (memory.md 2.7, 5.5, 5.6, 6.1; vectors 10.8; D20, D78, D79)."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol import recall_frames as frames
from app.protocol.recall_frames import FrameGroup, FrameHit, FrameStage, LightMemoHit

DAY = date(2025, 11, 27)


def test_f1_a_frame_without_hits_says_so() -> None:
    assert frames.standard_frame("小克日记本", []) == (
        '\n[--- 从"小克日记本"中检索到的相关记忆片段 ---]\n没有找到直接相关的记忆片段。\n[--- 记忆片段结束 ---]\n'
    )


def test_f2_in_the_time_frame_the_date_stands_in_brackets_and_the_author_stays() -> None:
    assert frames.dated_line(FrameHit("[2025-11-27] - 小克\n正文 x")) == "* [2025-11-27] 小克\n正文 x"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("[2025.04.25] - Your Maid\n正文", date(2025, 4, 25)),
        ("2025.11.27-小克", DAY),
        ("[2025-11-27] - 小克", DAY),
        ("[2025-13-27] - 小克", None),
        ("[2025-11-271] x", None),
        ("正文 2025-11-27", None),
        ("", None),
    ],
)
def test_f3_dates_of_first_lines_are_read_with_hyphens_or_dots(text: str, day: date | None) -> None:
    assert frames.heading_date(text) == day


def test_f4_ranges_are_printed_as_days_of_the_configured_zone() -> None:
    frame = frames.time_frame("小克日记本", [(date(2025, 11, 17), date(2025, 11, 23))], [], [])
    assert '[合并查询的时间范围: "2025-11-17 ~ 2025-11-23"]\n' in frame


def test_standard_hits_are_trimmed_and_one_below_the_other() -> None:
    hits = [FrameHit("  一 \n"), FrameHit("二\n行")]
    assert frames.standard_frame("小克日记本", hits) == (
        '\n[--- 从"小克日记本"中检索到的相关记忆片段 ---]\n* 一\n* 二\n行\n[--- 记忆片段结束 ---]\n'
    )


def test_d78_a_known_date_is_put_before_texts_that_do_not_bring_one() -> None:
    assert frames.hit_line(FrameHit("正文", DAY)) == "* [2025-11-27] 正文"
    assert frames.hit_line(FrameHit("正文", DAY), dates=False) == "* 正文"
    assert frames.hit_line(FrameHit("正文")) == "* 正文"
    assert frames.hit_line(FrameHit("[2025.11.01] - 小克\n正文", DAY)) == "* [2025.11.01] - 小克\n正文"
    assert frames.dated_line(FrameHit("正文", DAY)) == "* [2025-11-27] 正文"
    assert frames.dated_line(FrameHit("正文", DAY), dates=False) == "* 正文"


def test_the_group_frame_names_what_fired() -> None:
    groups = [FrameGroup("编程", 0.5, ("代码", "bug")), FrameGroup("茶", 0.125, ("龙井",))]
    assert frames.group_frame("小克日记本", groups, [FrameHit("一")]) == (
        '\n[--- "小克日记本" 语义组增强检索结果 ---]\n[激活的语义组:]\n'
        '  • 编程 (50%激活): 匹配到 "代码, bug"\n  • 茶 (13%激活): 匹配到 "龙井"\n\n'
        "[检索到 1 条相关记忆]\n* 一\n[--- 检索结束 ---]\n"
    )


def test_the_group_frame_without_groups_and_hits() -> None:
    assert frames.group_frame("小克日记本", [], []) == (
        '\n[--- "小克日记本" 语义组增强检索结果 ---]\n[未激活特定语义组]\n\n'
        "[检索到 0 条相关记忆]\n没有找到直接相关的记忆片段。\n[--- 检索结束 ---]\n"
    )


def test_the_time_frame_has_both_parts_with_a_blank_line_between() -> None:
    ranges = [(DAY, DAY), (date(2025, 8, 1), date(2025, 8, 31))]
    frame = frames.time_frame("小克日记本", ranges, [FrameHit("一", DAY)], [FrameHit("[2025-11-27] - 小克\n二")])
    assert frame == (
        '\n[--- "小克日记本" 多时间感知检索结果 ---]\n'
        '[合并查询的时间范围: "2025-11-27 ~ 2025-11-27" 和 "2025-08-01 ~ 2025-08-31"]\n'
        "[统计: 共找到 2 条不重复记忆 (语义相关 1条, 时间范围 1条)]\n\n"
        "【语义相关记忆】\n* [2025-11-27] 一\n\n【时间范围记忆】\n* [2025-11-27] 小克\n二\n[--- 检索结束 ---]\n"
    )


def test_the_chain_frame_shows_its_stages() -> None:
    stages = [
        FrameStage("前思维簇", ("一 ", "二")),
        FrameStage("反思簇", (), degraded=True),
        FrameStage("逻辑推理簇", (), degraded=True, error="坏了"),
    ]
    groups = [FrameGroup("g1", 0.5, ("x",))]
    assert frames.chain_frame("default", stages, groups, auto=True) == (
        '\n[--- VCP元思考链: "default" (Auto模式)  ---]\n[语义组增强: g1(50%)]\n[自动选择主题: "default"]\n'
        "[推理链路径: 前思维簇 → 反思簇 → 逻辑推理簇]\n\n"
        "【阶段1: 前思维簇】\n  [召回 2 个元逻辑模块]\n  * 一\n  * 二\n"
        "【阶段2: 反思簇】 [降级模式]\n  [未找到匹配的元逻辑模块]\n"
        "【阶段3: 逻辑推理簇】 [降级模式]\n  [错误: 坏了]\n\n[--- 元思考链结束 ---]\n"
    )
    assert frames.chain_frame("x", []).startswith('\n[--- VCP元思考链: "x"  ---]\n[推理链路径: ]\n')
    assert frames.chain_missing("x") == '[错误: 未找到"x"思维链定义]'


def test_texts_of_aimemo_and_those_in_place_of_declarations() -> None:
    assert frames.ai_memo_file("小克", "正文") == "=== 小克日记本 ===\n正文"
    assert frames.ai_memo_result(["A", "B"], "文") == "[跨库联合检索: A + B]\n文"
    assert frames.already_recalled("小克日记本") == '[检测到循环引用，已跳过"小克日记本"的解析]'
    assert '"小克日记本"' in frames.ai_memo_pointer("小克")
    assert (frames.DECLARATION_REMOVED, frames.RECALL_FAILED) == ("[循环占位符已移除]", "[RAG处理失败]")
    assert frames.AI_MEMO_UNCONFIGURED == "[AIMemo功能未配置]"


def test_the_frame_of_light_memo() -> None:
    hits = [
        LightMemoHit(" 一 ", "小克", 0.7345, "混合", ("a", "b", "c", "d", "e", "f")),
        LightMemoHit("二", "公共", 0.0, "BM25"),
    ]
    assert frames.light_memo_frame("茶", ["小克", "公共"], hits) == (
        '\n[--- LightMemo 轻量回忆 ---]\n[查询内容: "茶"]\n[搜索范围: 小克, 公共]\n\n[找到 2 条相关记忆片段:]\n'
        "--- (来源: 小克, 相关性: 73.5%(混合))\n    [TagMemo 增强: a, b, c, d, e]\n一\n"
        "--- (来源: 公共, 相关性: N/A(BM25))\n二\n\n[--- 回忆结束 ---]\n"
    )
    assert frames.light_memo_no_author("小克") == '没有找到署名为 "小克" 的相关记忆。'
    assert frames.light_memo_nothing("茶") == '关于"茶"，没有找到包含相关关键词的记忆片段。'


@given(st.text())
def test_d79_recalled_text_is_put_in_byte_for_byte(text: str) -> None:
    hostile = f"x$&$1\\g<0>{{{{Date}}}}[[小克日记本]]<<<[TOOL_REQUEST]>>>{text}x"
    for frame in (
        frames.standard_frame("n", [FrameHit(hostile)]),
        frames.group_frame("n", [], [FrameHit(hostile)]),
        frames.time_frame("n", [], [], [FrameHit(hostile)]),
        frames.chain_frame("n", [FrameStage("c", (hostile,))]),
        frames.light_memo_frame("q", ["n"], [LightMemoHit(hostile, "n", 1, "BM25")]),
    ):
        assert f"* {hostile}\n" in frame or f"\n{hostile}\n" in frame
        assert frame[0] == frame[-1] == "\n"
