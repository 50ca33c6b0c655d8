"""What lists show of a trace, what is looked for, and the tables that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.extend import Json
from app.observe.traces.document import RUNNING

SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE traces (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  started REAL NOT NULL,
  duration REAL NOT NULL,
  outcome TEXT NOT NULL,
  model TEXT NOT NULL,
  agent TEXT NOT NULL,
  door TEXT NOT NULL,
  client TEXT NOT NULL,
  first_token REAL,
  rounds INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  error TEXT NOT NULL,
  title TEXT NOT NULL,
  parent TEXT NOT NULL,
  replay_of TEXT NOT NULL,
  detail TEXT NOT NULL,
  words TEXT NOT NULL
);
CREATE INDEX traces_started ON traces (started, seq);
CREATE INDEX traces_model ON traces (model);
CREATE INDEX traces_agent ON traces (agent);
CREATE INDEX traces_parent ON traces (parent) WHERE parent != '';
CREATE INDEX traces_replay ON traces (replay_of) WHERE replay_of != '';
CREATE TABLE documents (
  seq INTEGER PRIMARY KEY REFERENCES traces (seq) ON DELETE CASCADE,
  document BLOB NOT NULL
);
CREATE TABLE tools (
  tool TEXT NOT NULL,
  seq INTEGER NOT NULL REFERENCES traces (seq) ON DELETE CASCADE,
  PRIMARY KEY (tool, seq)
) WITHOUT ROWID;
CREATE INDEX tools_seq ON tools (seq);
"""

COLUMNS = (
    "id, kind, started, duration, outcome, model, agent, door, client, first_token, rounds, calls, failed, tokens, "
    "error, title, parent, replay_of, detail"
)

MAX_TITLE = 200
MAX_ERROR = 300
MAX_WORDS = 2_000
"""Characters of a trace that the search looks through."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A line of the list. Times in seconds; ``first_token`` None where there was none; ``title`` is what was asked."""

    id: str
    kind: str
    started: float
    duration: float
    outcome: str
    model: str
    agent: str
    door: str
    client: str
    first_token: float | None
    rounds: int
    calls: int
    failed: int
    tokens: int
    error: str
    title: str
    parent: str
    replay_of: str
    detail: str

    @property
    def runs(self) -> bool:
        """Whether the request still runs."""
        return self.outcome == RUNNING


def row_of(document: Mapping[str, Any]) -> TraceRow:
    """The line of a document."""
    calls = document["calls"]
    first = next((one["first_token"] for one in document["rounds"] if one.get("first_token") is not None), None)
    turn = document["kind"] == "turn"
    door = (
        ("stream_loop" if document.get("stream") else "non_stream_loop")
        if turn
        else (calls[0] if calls else {}).get("door", "")
    )
    return TraceRow(
        id=document["id"],
        kind=document["kind"],
        started=document["started"],
        duration=document["duration"],
        outcome=document["outcome"],
        model=document["model"],
        agent=document["agent"],
        door=door,
        client=document.get("client") or "",
        first_token=first,
        rounds=len(document["rounds"]),
        calls=len(calls),
        failed=sum(call.get("outcome") == "error" for call in calls),
        tokens=min(document["tokens"]["total_tokens"], 2**62),
        error=_said(document["error"])[:MAX_ERROR] or ("" if turn else _call_error(calls)),
        title=_title(document),
        parent=document["parent"],
        replay_of=document["replay_of"],
        detail=document["detail"],
    )


def tools_of(document: Mapping[str, Any]) -> set[str]:
    """The tools that were called."""
    return {call["tool"] for call in document["calls"]}


def words_of(document: Mapping[str, Any]) -> str:
    """What the search looks through, in small letters: the question, the answers, tools, errors, names."""
    answers = " ".join(_said(one.get("text")) for one in document["rounds"])
    names = " ".join([document["id"], document["model"], document["agent"], *sorted(tools_of(document))])
    parts = (names[: MAX_WORDS // 4], _said(document["error"])[: MAX_WORDS // 8], _question(document)[: MAX_WORDS // 2])
    return " ".join([*parts, answers])[:MAX_WORDS].lower()


def _call_error(calls: Json) -> str:
    """Why the first call failed, by its kind."""
    return next((call["error_kind"] for call in calls if call.get("error_kind")), "")


def _said(text: Json) -> str:
    return text if isinstance(text, str) else ""


def _title(document: Mapping[str, Any]) -> str:
    if document["kind"] == "call":
        call = (document["calls"] or [{"tool": ""}])[0]
        return f"{call['tool']}.{call['command']}" if call.get("command") else str(call["tool"])
    return " ".join(_question(document)[: 2 * MAX_TITLE].split())[:MAX_TITLE]


def _question(document: Mapping[str, Any]) -> str:
    """The text of the last message of a user."""
    for message in reversed((document["prompt"] or {}).get("before", ())):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
            return "\n".join(text for text in texts if isinstance(text, str))
        return _said(content)
    return ""
