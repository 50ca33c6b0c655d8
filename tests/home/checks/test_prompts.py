"""Findings about agents, variables and placeholders (P54, P58, P61, P67, spec 3.11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.home.checks.findings import Level, Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import described, direct, write, write_manifest

QUIET = "API_URL=https://models.example.com"


def agent(home: Path, text: str, **more: str) -> None:
    """One agent called A, and others."""
    for name, content in {"A": text, **more}.items():
        write(home, f"Agent/{name}.txt", content)
    write(home, "agent_map.json", json.dumps({name: f"{name}.txt" for name in {"A": text, **more}}))


def findings(home: Path, *lines: str) -> list[tuple[str, str, str]]:
    return told(about(looked_at(home, QUIET, *lines), Topic.PROMPTS))


PROVIDED = """{{Date}}{{Time}}{{Today}}{{Festival}}{{Port}}{{ShowBase64}}{{VCPAllTools}}{{AllCharacterDiariesData}}
{{A}}{{agent:B}}{{B}}{{TarX}}{{VarX}}<<VarX>>{{SarPrompt1}}{{Image_Key}}{{VCP_ASYNC_RESULT::Wan2.1VideoGen::abc-1}}
{{公共日记本}}{{通用表情包}}{{猫表情包}}{{VCPStaticInfo}}{{VCPEcho}}{{VCPSciCalculator}}{{MaidName}}
{{VCPTavern::daily}}{{Workspace::code/sub::3}}
"""


def test_every_source_of_placeholders_is_known(tmp_path: Path) -> None:
    agent(tmp_path, PROVIDED.replace("{{A}}", ""), B="b")
    (tmp_path / "dailynote" / "公共").mkdir(parents=True)
    (tmp_path / "image" / "猫表情包").mkdir(parents=True)
    write(tmp_path, "Plugin/EmojiListGenerator/generated_lists/通用表情包.txt", "a.png")
    write(tmp_path, "Plugin/VCPTavern/presets/daily.json", "{}")
    here = {"entryPoint": {"command": "python main.py", "interpreter": "server"}}
    for name, more in {
        "Static": {
            "pluginType": "static",
            "capabilities": {"systemPromptPlaceholders": [{"placeholder": "{{VCPStaticInfo}}"}]},
        },
        "Echo": {"capabilities": described("Echo")},
        "VCPTavern": {},
        "WorkspaceInjector": {},
    }.items():
        write_manifest(tmp_path, name, **here, **more)
        write(tmp_path, f"Plugin/{name}/main.py", "")
    settings = (
        "TarX=x",
        "VarX=x",
        "SarModel1=m",
        "SarPrompt1=x",
        "Image_Key=some-key-of-pictures",
        'WORKSPACE_ALIASES={"code": "image"}',
    )
    assert findings(tmp_path, *settings) == []


@pytest.mark.parametrize(
    ("placeholder", "level"),
    [
        ("{{TarNone}}", "error"),
        ("{{VarNone}}", "error"),
        ("<<VarNone>>", "error"),
        ("{{agent:None}}", "error"),
        ("{{char}}", "warning"),
        ("{{SarPrompt7}}", "warning"),
        ("{{Image_Key}}", "warning"),
        ("{{VCPNone}}", "warning"),
        ("{{VCPWeatherInfo}}", "warning"),
        ("{{没有日记本}}", "warning"),
        ("{{../..日记本}}", "warning"),
        ("{{没有表情包}}", "warning"),
        ("{{VCPTavern::none}}", "warning"),
        ("{{VCPTavern::../../config}}", "warning"),
        ("{{Workspace::none}}", "warning"),
    ],
)
def test_a_placeholder_that_nothing_provides_is_told_with_file_line_and_column(
    tmp_path: Path, placeholder: str, level: str
) -> None:
    agent(tmp_path, f"\ufeffone\r\ntwo 二 {placeholder} and {{{{Date}}}} {placeholder}\r\n")
    found = findings(tmp_path)
    assert found[0] == (level, "Agent/A.txt:2:7", placeholder)
    assert len(found) == 1


RECALL = (
    "[[公共日记本:1.5::Time]]",
    "<<公共日记本>>",
    "《《公共日记本》》",
    "[[VCP元思考:default]]",
    "[[AIMemo=True]]",
)


@pytest.mark.parametrize("placeholder", RECALL)
def test_a_recall_form_is_told_only_where_memory_is_switched_off(tmp_path: Path, placeholder: str) -> None:
    agent(tmp_path, f"one\r\ntwo 二 {placeholder} and {placeholder}\r\n")
    assert findings(tmp_path) == []
    told = findings(tmp_path, "Memory=false")
    assert told[0] == ("warning", "Agent/A.txt:2:7", placeholder) and len(told) == 2


def test_a_workspace_whose_folder_is_not_there_is_told(tmp_path: Path) -> None:
    agent(tmp_path, "{{Workspace::here}}{{Workspace::gone/sub::2}}{{Workspace::odd}}")
    aliases = f'WORKSPACE_ALIASES={{"here": "{tmp_path}", "gone": "{tmp_path / "gone"}", "odd": 1}}'
    assert [named for _, _, named in findings(tmp_path, aliases)] == [
        "{{Workspace::gone/sub::2}}",
        "{{Workspace::odd}}",
    ]


def test_what_is_no_placeholder_is_left_alone(tmp_path: Path) -> None:
    agent(tmp_path, 'if (a) {{\n}} {{}} { {x} } "{{a\nb}}" <<<[TOOL_REQUEST]>>> << x >> [[link]]')
    assert findings(tmp_path) == []


def test_plugins_that_do_not_serve_their_placeholders_are_named_with_the_reason(tmp_path: Path) -> None:
    page = {"systemPromptPlaceholders": [{"placeholder": "{{VCPChromePageInfo}}"}]}
    write_manifest(tmp_path, "ChromeBridge", pluginType="hybridservice", capabilities=page, **direct("x.js"))
    write_manifest(tmp_path, "Blocked", blocked=True, capabilities=described("x"))
    write_manifest(tmp_path, "Gone", entryPoint={"command": "no-such-program"}, capabilities=described("x"))
    write_manifest(tmp_path, "Mute", entryPoint={"command": "python main.py", "interpreter": "server"})
    write(tmp_path, "Plugin/Mute/main.py", "")
    agent(tmp_path, "{{VCPChromePageInfo}}\n{{VCPBlocked}}\n{{VCPGone}}\n{{VCPMute}}\n")
    found = about(looked_at(tmp_path, QUIET), Topic.PROMPTS)
    assert [finding.english.split(", ")[-1] for finding in found[:3]] == [
        "which is not run here",
        "is blocked",
        "cannot be run",
    ]
    assert "describes no tool" in found[3].english


def test_variables_are_looked_at_in_the_file_and_in_their_texts(tmp_path: Path) -> None:
    write(tmp_path, "TVStxt/Guide.txt", "line\n  {{VarNone}}\n")
    found = findings(
        tmp_path, "VarText='{{nothing}} {{VarLater}}'", "VarLater=1", "VarGuide=Guide.txt", "TarGone=gone.TXT"
    )
    assert found == [
        ("error", "config.env:5", "TarGone"),
        ("error", "TVStxt/Guide.txt:2:3", "{{VarNone}}"),
        ("warning", "config.env:2", "{{nothing}}"),
    ]


def test_a_variable_that_stands_too_early_and_an_agent_in_a_variable_stay_as_written(tmp_path: Path) -> None:
    agent(tmp_path, "hi")
    lines = ("VarEarly=1", "VarLate='{{VarEarly}} {{A}} {{SarPrompt1}}'", "SarModel1=m", "SarPrompt1=x")
    assert findings(tmp_path, *lines) == [
        ("warning", "config.env:3", "{{VarEarly}}"),
        ("warning", "config.env:3", "{{A}}"),
        ("warning", "config.env:3", "{{SarPrompt1}}"),
    ]
    assert findings(tmp_path, *lines, "ResolveVariablesInAnyOrder=true") == [("warning", "config.env:3", "{{A}}")]


def test_agents_and_texts_that_include_each_other_are_told_once(tmp_path: Path) -> None:
    """P54."""
    agent(tmp_path, "{{B}}\n{{VarLoop}}", B="{{agent:C}}", C="x\n{{A}}")
    write(tmp_path, "TVStxt/loop.txt", "a {{VarLoop}}")
    found = about(looked_at(tmp_path, QUIET, "VarLoop=loop.txt"), Topic.PROMPTS, Level.ERROR)
    assert sorted(told(found)) == [
        ("error", "Agent/C.txt:2:1", "{{agent:A}}"),
        ("error", "TVStxt/loop.txt:1:3", "{{VarLoop}}"),
    ]
    assert "agent:A → agent:B → agent:C → agent:A" in found[0].english


def test_a_long_chain_of_agents_is_no_cycle_and_needs_no_stack(tmp_path: Path) -> None:
    count = 1100
    for number in range(count):
        write(tmp_path, f"Agent/{number}.txt", f"{{{{a{number + 1}}}}}" if number + 1 < count else "end")
    write(tmp_path, "agent_map.json", json.dumps({f"a{number}": f"{number}.txt" for number in range(count)}))
    assert findings(tmp_path) == []


def test_agents_whose_files_are_missing_misspelt_or_elsewhere_are_told_at_their_line(tmp_path: Path) -> None:
    """P61, P67: backslashes work, repeated notes too."""
    write(tmp_path, "Agent/Sub/nova.txt", "hi")
    write(tmp_path, "Agent/sub2/Good.txt", "hi")
    write(tmp_path, "Agent/old.txt", "")
    (tmp_path / "Agent" / "old.txt").write_bytes("你好\n中文".encode("gb18030"))
    write(
        tmp_path,
        "agent_map.json",
        '{\n "//": "a",\n "//": "b",\n "Good": "sub2\\\\Good.txt",\n "Nova": "sub\\\\Nova.txt",\n'
        ' "Out": "../config.env",\n "小克": "gone.txt",\n "Bad": 7,\n "Old": "old.txt"\n}\n',
    )
    report = looked_at(tmp_path, QUIET)
    assert told(about(report, Topic.PROMPTS, Level.ERROR)) == [
        ("error", "agent_map.json:8", "Bad"),
        ("error", "agent_map.json:5", "Nova"),
        ("error", "agent_map.json:6", "Out"),
        ("error", "agent_map.json:7", "小克"),
        ("error", "Agent/old.txt:1", "Old"),
    ]
    assert "there is Sub/nova.txt" in about(report, Topic.PROMPTS)[1].english


@pytest.mark.parametrize(
    ("text", "place"),
    [('{\n "a": }', "agent_map.json:2:7"), ("[]", "agent_map.json"), ("[" * 100_000, "agent_map.json")],
)
def test_an_agent_map_that_cannot_be_read_is_told_with_line_and_column(tmp_path: Path, text: str, place: str) -> None:
    write(tmp_path, "agent_map.json", text)
    assert [found[:2] for found in findings(tmp_path)] == [("error", place)]


def test_files_that_nothing_names_are_good_to_know(tmp_path: Path) -> None:
    agent(tmp_path, "hi")
    write(tmp_path, "Agent/spare/x.md", "")
    write(tmp_path, "TVStxt/spare.txt", "")
    found = about(looked_at(tmp_path, QUIET), Topic.PROMPTS)
    assert told(found) == [("note", "Agent/", ""), ("note", "TVStxt/", "")]
    assert "spare/x.md" in found[0].english


def test_agents_without_a_map_are_told(tmp_path: Path) -> None:
    write(tmp_path, "Agent/Nova.txt", "hi")
    assert findings(tmp_path)[0] == ("warning", "agent_map.json", "")
