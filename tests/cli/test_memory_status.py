"""What ``vcp memory status`` prints (memory.md 11.31)."""

from __future__ import annotations

from app.cli.memory_server import told


def test_vectors_are_told_of_where_a_server_runs() -> None:
    status = {"notes": 2, "chunks": 3, "pending": 0, "bytes": 1_000_000, "trouble": "", "unreadable": {}}
    assert len(told(status)) == 4
    vectors = {
        "serving": "hashing|512",
        "vectors": 3,
        "pending": 1,
        "building": {"signature": "upstream:m|64", "vectors": 2},
        "trouble": "\x1b[31mno model",
        "waiting": {"texts": 900},
    }
    lines = told(status | {"vectors": vectors})[4:]
    assert [line.partition(": ")[2] for line in lines] == [
        "3 (hashing|512)",
        "1",
        "2 (upstream:m|64)",
        "\\x1b[31mno model",
        "900 texts, vcp memory reembed",
    ]
