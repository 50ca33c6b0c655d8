"""Code, ``config.env.example`` and ``docs/configuration.md`` say the same."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from annotated_types import Ge, Le

from app.config.dotenv import parse
from app.config.keys import PLACEHOLDERS
from app.config.settings import Settings, names, read
from app.config.snapshot import load

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "config.env.example").read_text(encoding="utf-8")
DOCS = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

FAMILY = re.compile(r"(Tar|Var|Agent)\w*|SarModel\d+|SarPrompt\d+|(Super)?Detector(_Output)?\d+|Upstream_\w+_[A-Za-z]+")


def example(*, commented: bool) -> dict[str, str]:
    """Settings in the example: those in force, or those behind a ``#`` without a space (prose has one)."""
    lines = [line for line in EXAMPLE.splitlines() if bool(re.match(r"#[A-Za-z_]+[0-9]*=", line)) is commented]
    text = "\n".join(line.removeprefix("#") if commented else line for line in lines)
    return {entry.key: entry.value for entry in parse(text)}


def section(title: str) -> str:
    return DOCS.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the body rows of every table in a section."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def documented() -> dict[str, list[str]]:
    return {row[0].strip("`"): row[1:] for row in rows(section("Settings"))}


def as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def test_example_docs_and_code_know_the_same_settings() -> None:
    in_example = {key for key in example(commented=False) | example(commented=True) if not FAMILY.fullmatch(key)}
    assert in_example == set(names()) | plugin_keys()
    assert set(documented()) == set(names())
    assert len(rows(section("Settings"))) == len(names())


def grouped(text: str, heading: str, name: str) -> dict[str, list[str]]:
    """Names of settings by the heading above them."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if head := re.match(heading, line):
            names_below = found.setdefault(head[1], [])
        elif (match := re.match(name, line)) and not FAMILY.fullmatch(match[1]):
            names_below.append(match[1])
    return found


def test_example_docs_and_code_have_the_same_groups_of_settings() -> None:
    in_docs = grouped(section("Settings"), "### (.+)", r"\| `(\w+)`")
    code = inspect.getsource(Settings).partition("model_config")[2].partition("@classmethod")[0]
    in_code = grouped(code, "    # (.+)", r'.*alias="(\w+)"')
    assert in_code == in_docs
    _, settings = EXAMPLE.split("\n# -----", 1)
    in_example = grouped(f"# -----{settings}", r"# -{20,} (.+) /", r"#?([A-Za-z_][A-Za-z_\d]*)=")
    plugins = in_example.pop("Keys of the shipped plugins")
    assert set(plugins) == plugin_keys()
    assert list(in_example) == list(in_docs)
    assert {title: set(found) for title, found in in_example.items()} == {
        title: set(found) for title, found in in_docs.items()
    }


def plugin_keys() -> set[str]:
    """Keys that only plugins of ours read."""
    manifests = [json.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob("Plugin/*/plugin-manifest.json")]
    assert manifests
    return {key for manifest in manifests for key in manifest.get("configSchema", {})} - set(names())


def test_keys_of_the_shipped_plugins_are_documented() -> None:
    assert {row[0].strip("`") for row in rows(section("Keys of the shipped plugins"))} == plugin_keys()


def test_the_example_copied_as_it_is_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text(EXAMPLE, encoding="utf-8")
    config = load(tmp_path, {})
    assert config.problems == ()
    assert config.settings == Settings()
    assert all(not rules for rules in (config.families.variables, config.families.sar, config.families.detectors))
    for key, value in example(commented=False).items():
        assert value == as_text(names()[key].get_default()), key


def test_the_example_with_everything_switched_on_is_sound(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text(re.sub(r"(?m)^#(?=[A-Za-z_]+[0-9]*=)", "", EXAMPLE), encoding="utf-8")
    config = load(tmp_path, {})
    assert config.problems == ()
    families = config.families
    assert all((families.variables, families.sar, families.detectors, families.super_detectors))
    assert set(config.environ) == set(example(commented=False)) | set(example(commented=True))


def test_the_placeholder_keys_are_those_of_the_example() -> None:
    assert {example(commented=True)[key] for key in ("Key", "Image_Key", "File_Key")} == PLACEHOLDERS


@pytest.mark.parametrize("name", list(names()))
def test_the_documented_default_and_range_are_those_of_the_code(name: str) -> None:
    kind, default, allowed, meaning = documented()[name]
    field = names()[name]
    assert default.strip("`") == as_text(field.get_default())
    assert meaning
    low = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    high = next((limit.le for limit in field.metadata if isinstance(limit, Le)), None)
    if field.annotation in (int, float):
        assert allowed == f"{low} to {high}"
        assert kind == ("whole number" if field.annotation is int else "number")
    elif kind == "choice":
        assert tuple(re.findall("`([^`]+)`", allowed)) == get_args(field.annotation)
    else:
        assert (kind == "switch") is (field.annotation is bool)


def test_every_row_of_the_grammar_table_is_true() -> None:
    table = rows(section("Grammar of the file"))
    assert len(table) >= 10
    for written, read_as, *_ in table:
        (entry,) = parse(written[1:-1])
        assert entry.value == read_as[1:-1], written


def test_the_complaint_that_the_docs_quote_is_the_one_that_is_made() -> None:
    _, (complaint,) = read({"MaxVCPLoopStream": "abc"})
    assert f"`config.env:12: {complaint.key}: {complaint.reason}`" in DOCS
