from __future__ import annotations

import pytest

from app.extend import Piece, ToolCommand, ToolSpec, Trust
from app.prompt.settings import PromptSettings
from tests.prompt.installation import Home, static_source


def tool(name: str, description: str, origin: str = "local") -> ToolSpec:
    return ToolSpec(name, origin, name.lower(), (ToolCommand("c", "c", description),))


TOOLS = {"Echo": tool("Echo", "echoes"), "EchoTwo": tool("EchoTwo", "twice"), "Mute": ToolSpec("Mute", "local", "mute")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{VCPEcho}}", "- echo (Echo) - 命令: c:\n    echoes"),
        ("{{VCPEchoTwo}}", "- echotwo (EchoTwo) - 命令: c:\n    twice"),
        ("{{VCPMute}} {{VCPNone}} {{VCP}} VCPEcho", "{{VCPMute}} {{VCPNone}} {{VCP}} VCPEcho"),
        ("{{VCPAllTools}}", "- echo (Echo) - 命令: c:\n    echoes\n\n---\n\n- echotwo (EchoTwo) - 命令: c:\n    twice"),
        ("{{VCP{{VarName}}}}", "- echo (Echo) - 命令: c:\n    echoes"),
    ],
)
def test_tools_are_described_by_exact_name(home: Home, text: str, expected: str) -> None:
    assert home.text(text, PromptSettings(variables=(("VarName", "Echo"),)), tools=TOOLS) == expected


@pytest.mark.parametrize("tools", [{}, {"Mute": TOOLS["Mute"]}])
def test_without_any_description_the_list_says_so(home: Home, tools: dict[str, ToolSpec]) -> None:  # P60
    assert home.text("{{VCPAllTools}}", tools=tools) == "没有可用的VCP工具描述信息"


def test_local_manifests_are_operator_text_and_remote_ones_are_data(home: Home) -> None:
    words = "{{Port}} {{Image_Key}} {{公共日记本}} {{VarA}}"
    tools = {"Near": tool("Near", words), "Far": tool("Far", words, "node-1")}
    settings = PromptSettings(port=6005, image_key="k", variables=(("VarA", "a"),))
    near = "- near (Near) - 命令: c:\n    6005 k [公共日记本内容为空或未从插件获取] {{VarA}}"
    far = f"- far (Far) - 命令: c:\n    {words}"
    assert home.text("{{VCPNear}}", settings, tools=tools) == near
    assert home.text("{{VCPFar}}", settings, tools=tools) == far
    assert home.text("{{VCPAllTools}}", settings, tools=tools) == f"{near}\n\n---\n\n{far}"


def test_the_origins_name_the_tools(home: Home) -> None:
    expanded = home.expand([{"role": "system", "content": "a {{VCPAllTools}}"}], tools=TOOLS)
    sources = [piece.source for piece in expanded.origins[0][0].pieces]
    assert sources == ["message", "tool:Echo", "VCPAllTools", "tool:EchoTwo"]


def test_names_that_no_tool_has_are_left_for_static_values(home: Home) -> None:
    source = static_source(VCPWeatherInfo="Sunny")
    expanded = home.expand([{"role": "system", "content": "{{VCPWeatherInfo}}"}], tools=TOOLS, sources=[source])
    assert expanded.origins[0][0].pieces == (Piece("Sunny", "static", Trust.DATA),)


def test_port_and_image_key_stay_where_they_are_not_set(home: Home) -> None:
    assert home.text("{{Port}} {{Image_Key}}") == "{{Port}} {{Image_Key}}"
