"""Wire literals of calls, replies and errors; those of prompts are in ``prompt_texts``,
those of diary blocks in ``diary``.

Clients and plugins search for these texts: they are kept to the byte (D20).

A literal with a hole is a function. Section and rule numbers are those of the behaviour specification.
"""

from __future__ import annotations

# --- tool request blocks (4.1 - 4.3) ---------------------------------------------------------------------------------

TOOL_REQUEST_START = "<<<[TOOL_REQUEST]>>>"
TOOL_REQUEST_END = "<<<[END_TOOL_REQUEST]>>>"
VALUE_START = "「始」"
VALUE_END = "「末」"

# Inside an escaped value these stand for the four literals above.
TOOL_REQUEST_START_ESCAPE = "<<<[TOOL_REQUEST_ESCAPE]>>>"
TOOL_REQUEST_END_ESCAPE = "<<<[END_TOOL_REQUEST_ESCAPE]>>>"
VALUE_START_ESCAPE = "「始ESCAPE」"
VALUE_END_ESCAPE = "「末ESCAPE」"

KEY_TOOL_NAME = "tool_name"
KEY_ARCHERY = "archery"
KEY_TOOL_PASSWORD = "tool_password"
KEY_MAID = "maid"
KEY_VALET = "valet"
KEY_PROTO = "__proto__"
ARCHERY_VALUES = frozenset({"true", "no_reply"})

# --- scheduled calls (1.9, 7.1, 7.2) ---------------------------------------------------------------------------------

KEY_TIMELY_CONTACT = "timely_contact"
KEY_TIMED_CALL = "__vcp_timed_call"
AGENT_ASSISTANT = "AgentAssistant"
AGENT_PROMPT = "prompt"
TASK_SCHEDULED = "任务已成功调度。"


def timed_prompt(local_time: str, prompt: str) -> str:
    """What a scheduled AgentAssistant is told; ``local_time`` is ``YYYY-MM-DD HH:mm:ss`` (7.1)."""
    return f"[预定通讯: {local_time}] {prompt}"


# --- calls by people (1.8) -------------------------------------------------------------------------------------------

HUMAN_TOOL_EMPTY = "Request body must be a non-empty plain text."
HUMAN_TOOL_NO_MARKERS = "Malformed request: Missing TOOL_REQUEST markers."
HUMAN_TOOL_NO_NAME = "Malformed request: tool_name not found within the request block."

# --- what is fed back to the model (4.5, 4.6, 4.13) ------------------------------------------------------------------

PASSWORD_REFUSED = (
    "[VCP] 错误：工具调用验证失败。您没有提供'tool_password'或'tool_password'不正确。请向用户询问正确的验证码。"
)
RESULT_MAID_NAME = "MaidName"
RESULT_TIMESTAMP = "timestamp"
RESULT_PLAIN_OUTPUT = "original_plugin_output"

HEAD_PAYLOAD_MARK = "<!-- VCP_TOOL_PAYLOAD -->"
HEAD_NO_CONTENT = "(无返回内容)"


def tool_result_text(tool: str, content: str) -> str:
    """The text part with a tool's result (4.5)."""
    return f'来自工具 "{tool}" 的结果:\n{content}'


def tool_no_content(tool: str) -> str:
    """What stands in place of a result that is null (4.5)."""
    return f"插件 {tool} 执行完毕，但没有返回明确内容。"


def tool_failed(tool: str, error: str) -> str:
    """What stands in place of a result when the plugin failed; ``error`` is the JSON text of 4.6."""
    return f"执行插件 {tool} 时发生错误：{error}"


def unknown_tool(tool: str) -> str:
    """The text part for a call of a tool that does not exist (4.5)."""
    return f'错误：未找到名为 "{tool}" 的插件。'


def unspecified_plugin_error(tool: str) -> str:
    """The error of a plugin that reported one without a text (4.6)."""
    return f'Plugin "{tool}" reported an unspecified error.'


def head_error(text: str) -> str:
    """An error as the later payload format writes it (4.13)."""
    return f"[错误] {text}"


def head_execution_error(error: str) -> str:
    """A failed execution in the later payload format, to be put into ``head_error`` (4.13)."""
    return f"执行错误: {error}"


def head_unknown_tool(tool: str) -> str:
    """An unknown tool in the later payload format, to be put into ``head_error`` (4.13)."""
    return f'未找到名为 "{tool}" 的插件'


# --- result blocks in replies (4.9) ----------------------------------------------------------------------------------

SHOW_VCP_START = "[[VCP调用结果信息汇总:"
SHOW_VCP_END = "]]"
HEAD_SHOW_VCP_END = "VCP调用结果结束]]"
SHOW_VCP_SUCCESS = "✅ SUCCESS"
SHOW_VCP_ERROR = "❌ ERROR"
SHOW_VCP_NO_CONTENT = "插件执行完毕，但没有返回明确内容。"
CALCULATION_START = "###计算结果："
CALCULATION_END = "###"


def show_vcp_block(tool: str, content: str, *, ok: bool, head: bool = False) -> str:
    """The block that shows a result to the client (4.9), with its leading and trailing newline."""
    status = SHOW_VCP_SUCCESS if ok else SHOW_VCP_ERROR
    end = HEAD_SHOW_VCP_END if head else SHOW_VCP_END
    return f"\n{SHOW_VCP_START}\n- 工具名称: {tool}\n- 执行状态: {status}\n- 返回内容: {content}\n{end}\n"


# --- streams and errors (1.6, 1.7, 4.7, 4.10, 4.13) -------------------------------------------------------------------

# Prefixes of chunk ids; milliseconds since the epoch follow.
ID_FINAL_STOP = "chatcmpl-VCP-final-stop-"
ID_UPSTREAM_ERROR = "chatcmpl-VCP-upstream-error-"
ID_ERROR = "chatcmpl-VCP-error-"
ID_INTERRUPT = "chatcmpl-interrupt-"
ID_SHOW_VCP = "chatcmpl-vcp-"
ID_SEPARATOR = "chatcmpl-VCP-separator-"

INTERRUPTED = "请求已被用户中止"
INTERRUPT_NO_ID = "requestId or messageId is required."
KEEPALIVE_COMMENT = ": vcp-keepalive"
FETCH_FAILED = "Fetch failed after all retries."
INTERNAL_SERVER_ERROR = "Internal Server Error"
IMAGE_PROXY_FAILED = "Internal Server Error during image model proxy"
EMBEDDING_PROXY_FAILED = "Internal Server Error during embedding model proxy"
NO_IMAGE_MODEL = "模型不匹配图像模型白名单"
NO_EMBEDDING_MODEL = "模型不匹配向量化模型白名单"
FATAL_ERROR = "A fatal internal error occurred."


def interrupt_unknown(request_id: str) -> str:
    """The answer to an interrupt of a request that is not running (1.7)."""
    return f"Request {request_id} not found or already completed."


def interrupt_sent(request_id: str) -> str:
    """The answer to an interrupt of a running request (1.7)."""
    return f"Interrupt signal sent for request {request_id}."


def upstream_status_error(status: int, body: str) -> str:
    """What a streaming client reads when the upstream answered with another status (4.10)."""
    return f"[UPSTREAM_ERROR] 上游API返回状态码 {status}，错误信息: {body}"


def upstream_unreachable(reason: str) -> str:
    """What a streaming client reads when all attempts failed (4.10)."""
    return f"[ERROR] 代理服务器在连接上游API时失败，可能已达到重试上限或网络错误: {reason}"


# --- far nodes (6.4) -------------------------------------------------------------------------------------------------

NODE_DISPLAY = "[云端] "
"""Stands before the display name of a tool that a far node offers."""

NODE_FILE_TOOL = "internal_request_file"
"""The tool with which a node is asked for a file; never one that is listed."""


def node_timed_out(tool: str, node: str, seconds: float) -> str:
    """The error of a call that its node did not answer in time; ``node`` is ``dist-<connection id>``."""
    told = f"{seconds:.3f}".rstrip("0").rstrip(".")
    return f"Request to distributed tool {tool} on server {node} timed out after {told}s."


def node_not_connected(node: str) -> str:
    """The error of a call whose node is not there."""
    return f"Distributed server {node} is not connected or ready."


MCP_ERROR_PREFIX = "错误："
"""Begins the text of a failed call that an MCP client reads (mcp.md MCP-24, STD-35)."""
