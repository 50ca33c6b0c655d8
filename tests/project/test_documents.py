"""What the documents promise about the project itself."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from app import extend

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def code_blocks(text: str) -> list[str]:
    return re.findall(r"^```\w*\n.*?^```$", text, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_both_readmes_show_the_same_code_in_the_same_order() -> None:
    english, chinese = (
        code_blocks((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "README.zh-CN.md")
    )
    assert english == chinese


def test_the_readme_begins_with_the_two_commands() -> None:
    blocks = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks[:2] == ["```sh\nmake run\n```", "```sh\nmake test\n```"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_make_command_in_a_document_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z][a-z-]*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_inside_the_project_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.is_file(), f"{path.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{path.name} links to {link}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_source_file_that_a_document_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"(?:^|`)([a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py)\b", text, re.MULTILINE):
        assert (ROOT / name).is_file() or (ROOT / "app" / name).is_file(), f"{path.name} names {name}"


def test_the_architecture_names_every_package_and_every_contract_that_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    packages = re.findall(r"^  ([a-z_]+)/  ", text, re.MULTILINE)
    assert sorted(packages) == sorted(folder.parent.name for folder in ROOT.glob("app/*/__init__.py"))
    contracts = text.partition("## Contracts")[2].partition("## State")[0]
    for names in re.findall(r"^\| (`.+?`) \|", contracts, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(extend, name), name


@pytest.mark.parametrize("package", ["services", "hub", "node", "mcp"])
def test_the_architecture_tells_what_every_file_of_a_package_is_for(package: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    files = [path for path in (ROOT / "app" / package).rglob("*.py") if path.name != "__init__.py"]
    untold = [path for path in files if f"{path.relative_to(ROOT / 'app').as_posix()} " not in text.replace("`", " ")]
    assert untold == []


def test_the_architecture_tells_every_file_that_the_server_keeps_for_itself() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("app/**/*.py"))
    kept = set(re.findall(r'"\.vcp"\)? / "([\w.]+)"', code))
    assert len(kept) >= 6
    state = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("## State")[2]
    assert sorted(name for name in kept if f"`.vcp/{name}" not in state) == []


def test_the_layers_in_the_architecture_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^```\n(\w[\w| ]* → .+)\n```$", text, re.MULTILINE)
    assert drawn == [" → ".join(contract["layers"]) for contract in contracts]


def test_no_row_stands_twice_in_a_document() -> None:
    for path in DOCUMENTS:
        lines = prose(path.read_text(encoding="utf-8")).splitlines()
        titles = {title for title, line in itertools.pairwise(lines) if re.match(r"\|[-|: ]+\|$", line)}
        rows = [line for line in lines if line.startswith("| ") and line not in titles]
        assert sorted({row for row in rows if rows.count(row) > 1}) == [], path.name


def test_no_entry_of_a_list_stands_twice_in_a_document() -> None:
    for path in DOCUMENTS:
        entries = re.findall(r"^[-*] .+$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
        assert sorted({entry for entry in entries if entries.count(entry) > 1}) == [], path.name


def test_every_heading_stands_alone_and_once_in_its_part() -> None:
    for path in DOCUMENTS:
        text = prose(path.read_text(encoding="utf-8"))
        assert re.findall(r"(?<!\n)\n#+ .+", text) == [], path.name
        assert re.findall(r"^#+ .+\n(?!\n)", text, re.MULTILINE) == [], path.name
        for part in re.split(r"^## ", text, flags=re.MULTILINE):
            titles = re.findall(r"^###+ (.+)$", part, re.MULTILINE)
            assert len(titles) == len(set(titles)), path.name


def test_a_table_speaks_of_each_thing_once() -> None:
    for path in DOCUMENTS:
        for table in re.findall(r"(?m)(?:^\|.*\n)+", prose(path.read_text(encoding="utf-8")) + "\n"):
            firsts = [re.split(r"(?<!\\)\|", row)[1].strip() for row in table.splitlines()]
            repeated = {first for first in firsts if firsts.count(first) > 1 and first and not first.isdecimal()}
            assert repeated == set(), path.name


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_every_direct_dependency_has_its_reason_in_the_architecture() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    reasons = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("## Libraries")[2]
    wanted = project["project"]["dependencies"]
    for items in project["dependency-groups"].values():
        wanted += [item for item in items if isinstance(item, str)]
    for text in wanted:
        name = re.split(r"[^A-Za-z0-9-]", text)[0]
        assert name in reasons, name
