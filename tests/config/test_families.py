"""Ordered families: spec vcp-core 2.3."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.dotenv import quote
from app.config.families import Families, SarRule, collect
from app.config.snapshot import load


def families(environ: dict[str, str]) -> Families:
    return collect(environ)[0]


def test_variables_are_a_plain_prefix_test_in_environment_order() -> None:
    environ = {"VarB": "2", "Other": "x", "TarA": "1", "Variant": "v", "varC": "no", "XVar": "no", "VarEmpty": ""}
    assert families(environ).variables == (("VarB", "2"), ("TarA", "1"), ("Variant", "v"), ("VarEmpty", ""))


def test_a_model_text_needs_both_its_keys() -> None:
    environ = {
        "SarPrompt2": "two",
        "SarModel2": "m2",
        "SarModel1": " A , b/c,,",
        "SarPrompt1": "one.txt",
        "SarModel3": "m3",
        "SarPrompt4": "four",
        "SarModel5": "",
        "SarPrompt5": "five",
        "SarModel6": " , ",
        "SarPrompt6": "six",
    }
    found, complaints = collect(environ)
    assert found.sar == (SarRule("2", ("m2",), "two"), SarRule("1", ("A", "b/c"), "one.txt"))
    told = {complaint.key: complaint.reason for complaint in complaints}
    assert list(told) == ["SarModel3", "SarPrompt4", "SarPrompt5", "SarPrompt6"]
    assert told["SarPrompt4"] == "is not used: SarModel4 is not set or empty"


@pytest.mark.parametrize("kind", ["", "Super"])
def test_detectors_keep_environment_order_and_need_an_output(kind: str) -> None:
    environ = {
        f"{kind}Detector10": "ten",
        f"{kind}Detector_Output1": "ONE",
        f"{kind}Detector_Output10": "TEN",
        f"{kind}Detector1": "one",
        f"{kind}Detector2": "two",
        f"{kind}Detector_Output2": "",
        f"{kind}Detector3": "",
        f"{kind}Detector_Output3": "THREE",
        f"{kind}Detector4": " ",
        f"{kind}Detector_Output4": "FOUR",
        f"{kind}DetectorX": "x",
        f"{kind}Detector_OutputX": "X",
    }
    found, complaints = collect(environ)
    rules = found.super_detectors if kind else found.detectors
    assert [(rule.name.removeprefix(kind), rule.pattern, rule.output) for rule in rules] == [
        ("Detector10", "ten", "TEN"),
        ("Detector1", "one", "ONE"),
        ("Detector4", " ", "FOUR"),
    ]
    assert (found.detectors if kind else found.super_detectors) == ()
    assert [complaint.key for complaint in complaints] == [f"{kind}Detector2", f"{kind}Detector_Output3"]
    assert complaints[1].reason == f"is not used: {kind}Detector3 is not set or empty"


def test_legacy_agents_stay_readable() -> None:
    assert families({"AgentNova": "Nova.txt", "Agent": "x", "agentB": "y"}).agents == (
        ("AgentNova", "Nova.txt"),
        ("Agent", "x"),
    )


NAMES = st.lists(st.from_regex(r"(Tar|Var)[A-Za-z]{0,4}", fullmatch=True), unique=True, max_size=8)
TEXTS = st.text(st.characters(exclude_characters="\r\"'`\\\0", exclude_categories=["Cs"]), max_size=12)


@given(st.data(), NAMES)
def test_families_keep_file_order_and_keys_of_the_system_come_first(data: st.DataObject, names: list[str]) -> None:
    values = {name: data.draw(TEXTS) for name in names}
    of_system = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    system = dict.fromkeys(of_system, "system")
    with TemporaryDirectory() as home:
        text = "".join(f"{name}={quote(value)}\n" for name, value in values.items())
        (Path(home) / "config.env").write_text(text, encoding="utf-8", newline="")
        found = load(Path(home), system).families.variables
    rest = [(name, value) for name, value in values.items() if name not in system]
    assert found == (*system.items(), *rest)
