"""Wire literals, byte for byte as clients and prompts know them (D20)."""

from __future__ import annotations

import pytest

from app.protocol import diary, markers, prompt_texts


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
        (markers.TOOL_REQUEST_START, "<<<[TOOL_REQUEST]>>>"),
        (markers.TOOL_REQUEST_END, "<<<[END_TOOL_REQUEST]>>>"),
        (markers.VALUE_START + markers.VALUE_END, "「始」「末」"),
        (markers.TOOL_REQUEST_START_ESCAPE, "<<<[TOOL_REQUEST_ESCAPE]>>>"),
        (markers.TOOL_REQUEST_END_ESCAPE, "<<<[END_TOOL_REQUEST_ESCAPE]>>>"),
        (markers.VALUE_START_ESCAPE + markers.VALUE_END_ESCAPE, "「始ESCAPE」「末ESCAPE」"),
        (markers.HUMAN_TOOL_EMPTY, "Request body must be a non-empty plain text."),
        (markers.HUMAN_TOOL_NO_MARKERS, "Malformed request: Missing TOOL_REQUEST markers."),
        (markers.HUMAN_TOOL_NO_NAME, "Malformed request: tool_name not found within the request block."),
        (markers.HEAD_NO_CONTENT, "(无返回内容)"),
        (markers.SHOW_VCP_NO_CONTENT, "插件执行完毕，但没有返回明确内容。"),
        (markers.CALCULATION_START + markers.CALCULATION_END, "###计算结果：###"),
        (markers.INTERRUPT_NO_ID, "requestId or messageId is required."),
        (markers.KEEPALIVE_COMMENT, ": vcp-keepalive"),
        (markers.FETCH_FAILED, "Fetch failed after all retries."),
        (markers.INTERNAL_SERVER_ERROR, "Internal Server Error"),
        (markers.FATAL_ERROR, "A fatal internal error occurred."),
        (diary.START_MARKER, "<<<DailyNoteStart>>>"),
        (diary.END_MARKER, "<<<DailyNoteEnd>>>"),
        (prompt_texts.SHOW_BASE64, "{{ShowBase64}}"),
        (prompt_texts.NO_TOOLS, "没有可用的VCP工具描述信息"),
        (prompt_texts.TOOL_SEPARATOR, "\n\n---\n\n"),
        (prompt_texts.agent_cycle("X"), "[Error: Circular agent reference detected for 'X']"),
        (
            prompt_texts.agent_unreadable("X"),
            "[AgentManager: Error loading prompt for 'X'. File not found or unreadable.]",
        ),
        (prompt_texts.variable_empty("VarX"), "[未配置 VarX]"),
        (prompt_texts.variable_file_missing("x.txt"), "[变量文件 (x.txt) 未找到]"),
        (prompt_texts.variable_file_unreadable("x.txt"), "[处理变量文件 (x.txt) 时出错]"),
        (prompt_texts.diary_missing("X"), "[X日记本内容为空或未从插件获取]"),
        (markers.INTERRUPTED, "请求已被用户中止"),
        (markers.interrupt_unknown("zz"), "Request zz not found or already completed."),
        (markers.interrupt_sent("zz"), "Interrupt signal sent for request zz."),
    ],
)
def test_texts_are_kept_to_the_byte(literal: str, expected: str) -> None:
    assert literal == expected
