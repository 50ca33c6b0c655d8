"""The measurement of groups of tools runs from end to end. What it saves is judged; how quick it is, is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.tool_groups import main


def test_a_small_run_tells_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    main(["--servers", "12", "--tools", "20", "--repeats", "1", "--json", str(file)])
    told = json.loads(file.read_text("utf-8"))
    sizes = told["sizes"]
    assert (sizes["groups"], sizes["tools"]) == (12, 240)
    listed, prompt = sizes["tools/list"], sizes["prompt"]
    assert listed["modular"]["tokens"] < listed["flat"]["tokens"] / 20
    assert prompt["{{VCPToolGroups}}"]["tokens"] < prompt["{{VCPAllTools}}"]["tokens"] / 10
    assert sizes["largest group"]["tokens"] < listed["flat"]["tokens"] / 10
    printed = capsys.readouterr().out
    assert all(name in printed and spent > 0 for name, spent in told["ms"].items())
    assert len(told["ms"]) == 5
