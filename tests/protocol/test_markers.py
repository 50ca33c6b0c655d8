"""Wire literals, byte for byte as clients and prompts know them (D20)."""

from __future__ import annotations

import pytest

from app.protocol import markers


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        (markers.tool_result_text("A", "x"), '来自工具 "A" 的结果:\nx'),
        (markers.tool_no_content("A"), "插件 A 执行完毕，但没有返回明确内容。"),
        (markers.tool_failed("A", "{}"), "执行插件 A 时发生错误：{}"),
        (markers.unknown_tool("X"), '错误：未找到名为 "X" 的插件。'),
        (markers.unspecified_plugin_error("X"), 'Plugin "X" reported an unspecified error.'),
        (
            markers.PASSWORD_REFUSED,
            "[VCP] 错误：工具调用验证失败。您没有提供'tool_password'"
            "或'tool_password'不正确。请向用户询问正确的验证码。",
        ),
        (markers.head_error(markers.head_execution_error("x")), "[错误] 执行错误: x"),
        (markers.head_error(markers.head_unknown_tool("X")), '[错误] 未找到名为 "X" 的插件'),
        (markers.HEAD_PAYLOAD_MARK, "<!-- VCP_TOOL_PAYLOAD -->"),
        (
            markers.show_vcp_block("SciCalculator", "2", ok=True),
            "\n[[VCP调用结果信息汇总:\n- 工具名称: SciCalculator\n- 执行状态: ✅ SUCCESS\n- 返回内容: 2\n]]\n",
        ),
        (
            markers.show_vcp_block("A", "no", ok=False, head=True),
            "\n[[VCP调用结果信息汇总:\n- 工具名称: A\n- 执行状态: ❌ ERROR\n- 返回内容: no\nVCP调用结果结束]]\n",
        ),
        (
            markers.upstream_status_error(400, "x"),
            "[UPSTREAM_ERROR] 上游API返回状态码 400，错误信息: x",
        ),
        (
            markers.upstream_unreachable("x"),
            "[ERROR] 代理服务器在连接上游API时失败，可能已达到重试上限或网络错误: x",
        ),
        (markers.INTERRUPTED, "请求已被用户中止"),
        (markers.interrupt_unknown("zz"), "Request zz not found or already completed."),
        (markers.interrupt_sent("zz"), "Interrupt signal sent for request zz."),
    ],
)
def test_texts_are_kept_to_the_byte(literal: str, expected: str) -> None:
    assert literal == expected
