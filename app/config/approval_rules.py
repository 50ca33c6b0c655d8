"""``toolApprovalConfig.json``: which tool calls wait for a person's word (spec 7.6; P89)."""

from __future__ import annotations

import json
import logging
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from app.config.json_file import JsonFileError, parsed_object
from app.config.live_file import LiveFile
from app.config.problem import Problem
from app.errors import both
from app.extend import Json

log = logging.getLogger(__name__)

FILE_NAME = "toolApprovalConfig.json"
MAX_FILE_BYTES = 1024 * 1024
MAX_RULES = 10_000
MAX_RULE_CHARS = 2_000
MAX_PROBLEMS = 100
"""Most complaints about one file."""

MAX_MINUTES = 24 * 60
DEFAULT_MINUTES = 5.0
SILENT_REJECT = "::SilentReject"
_SILENT = "silentreject"

FAR = "#"
"""Between a node or label and the name of its tool (D60); before the name of a tool that is not on this machine."""

GONE_SECONDS = 5.0
"""How long the rules of a file that vanished stay in force: some editors put another file in its place."""

_KNOWN = ("enabled", "timeoutMinutes", "approveAll", "approvalList", "fuzzyToolMatching", "debugMode")
_PRIVACY = "privacyProtection"

_TO_ONE = 8
"""So many characters become one at most, when their common form is taken."""

_UNSEEN = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f_\-\u2010-\u2015\u2212\u203f\u2040"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
"""White space, hyphens and ``_``, and what nobody sees: many programs pass over them when they read a name."""


class ApprovalFileError(JsonFileError):
    """The file cannot be used at all; ``line`` says where, if it is known."""

    code = "approval_file"


@dataclass(frozen=True, slots=True)
class ApprovalNeed:
    """A call needs a person's word: how long it is waited for, and whether the model hears nothing of a rejection."""

    seconds: float
    silent: bool


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """What the file says. ``rules`` holds each rule by its ``rule_key``, true for those with ``::SilentReject``.

    With ``everything`` no call is free (``approveAll``); ``explained`` has each decision logged (``debugMode``),
    ``private`` masks secrets in results for models, and in what a person is shown (``privacyProtection``).
    """

    enabled: bool = False
    everything: bool = False
    seconds: float = DEFAULT_MINUTES * 60
    rules: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    explained: bool = False
    private: bool = False

    def need(self, tools: Iterable[str], commands: Iterable[str]) -> ApprovalNeed | None:
        """What a call needs that goes by these names: of its tool, and of its command (``Tool:command``).

        A rule for a command beats one for its tool; of several in the same scope a silent one wins.
        """
        if not self.enabled:
            return None
        for names in (commands, tools):
            found = [self.rules[key] for name in names if (key := rule_key(name)) in self.rules]
            if found:
                return ApprovalNeed(self.seconds, any(found))
        return ApprovalNeed(self.seconds, silent=False) if self.everything else None


NO_RULES = ApprovalRules()
LOCKED = ApprovalRules(enabled=True, everything=True)
"""In force while the only file there ever was cannot be read: somebody wanted rules, and nobody knows which."""


def rule_key(text: str) -> str:
    """The form in which rules and the names of calls are compared.

    It is coarser than that of argument names (D4): whoever carries out a call may compare names in his own way, and
    what any way takes for equal must be equal here. So capitals, widths and ligatures, white space, hyphens, ``_`` and
    invisible characters make no difference. The key of a key is the key itself.
    """
    text = _UNSEEN.sub("", text)[: _TO_ONE * MAX_RULE_CHARS]  # what is longer is the name of no rule
    if text.isascii():
        return text.lower().rstrip(":")
    while True:  # ends: what is left out never comes back
        key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).upper().casefold())
        key = _UNSEEN.sub("", key).rstrip(":")
        if key == text:
            return key
        text = key


def read_rules(data: bytes, file: str = FILE_NAME) -> tuple[ApprovalRules, tuple[Problem, ...]]:
    """The rules of a file's content, and what is odd in it; raises ApprovalFileError when it is of no use."""
    value, problems = parsed_object(data, file, ApprovalFileError)
    lines = data.decode("utf-8", "replace").split("\n")

    def complain(key: str, chinese: str, english: str) -> None:
        if len(problems) >= MAX_PROBLEMS:
            return
        line = next((number for number, text in enumerate(lines, 1) if f'"{key}"' in text), None)
        problems.append(Problem(file, line, key, both(chinese, english)))

    def switch(holder: Mapping[str, Json], key: str, shown: str = "") -> bool:
        chosen = holder.get(key, False)
        if not isinstance(chosen, bool | None):
            complain(shown or key, "应为 true 或 false", "should be true or false")
        return chosen not in (None, False, 0, "")  # as JavaScript understands it

    for key in value:
        if key not in _KNOWN and key != _PRIVACY and not key.startswith(("//", "#")):
            complain(key, "未知的键，已忽略", "is not known and ignored")
    if switch(value, "fuzzyToolMatching"):
        complain(
            "fuzzyToolMatching",
            "不支持：工具调用的标记须准确",
            "is not supported: marks of tool calls are read to the letter",
        )
    privacy = value.get(_PRIVACY)
    if privacy is not None and not isinstance(privacy, Mapping):
        complain(_PRIVACY, "应是一个 JSON 对象", "should be a JSON object")
    rules = ApprovalRules(
        enabled=switch(value, "enabled"),
        everything=switch(value, "approveAll"),
        seconds=60 * _minutes(value, complain),
        rules=_rules(value, complain),
        explained=switch(value, "debugMode"),
        private=isinstance(privacy, Mapping) and switch(privacy, "enabled", f"{_PRIVACY}.enabled"),
    )
    return rules, tuple(problems)


Complain = Callable[[str, str, str], None]

_ONE_COLON = f"has a rule about a command SilentReject; two colons, {SILENT_REJECT}, make a rejection silent"


def _minutes(value: Mapping[str, Json], complain: Complain) -> float:
    minutes = value.get("timeoutMinutes", DEFAULT_MINUTES)
    if isinstance(minutes, int | float) and not isinstance(minutes, bool) and 0 < minutes < math.inf:
        if minutes > MAX_MINUTES:
            complain("timeoutMinutes", f"最多 {MAX_MINUTES} 分钟", f"is cut to {MAX_MINUTES} minutes")
        return float(min(minutes, MAX_MINUTES))
    complain(
        "timeoutMinutes",
        f"应是大于 0 的数，按 {DEFAULT_MINUTES:g} 计",
        f"should be a number above 0; {DEFAULT_MINUTES:g} it is",
    )
    return DEFAULT_MINUTES


def _rules(value: Mapping[str, Json], complain: Complain) -> Mapping[str, bool]:
    listed = value.get("approvalList", [])
    if not isinstance(listed, list):
        raise ApprovalFileError(both("approvalList 应是规则的列表", "approvalList must be a list of rules"))
    if len(listed) > MAX_RULES:
        raise ApprovalFileError(
            both(f"approvalList 超过 {MAX_RULES} 条规则", f"approvalList has more than {MAX_RULES} rules")
        )
    rules: dict[str, bool] = {}
    for rule in listed:
        key = rule_key(rule) if isinstance(rule, str) else ""
        silent = key.endswith(f"::{_SILENT}")
        if silent:
            key = rule_key(key.removesuffix(_SILENT))
        elif key.endswith(f":{_SILENT}"):
            complain("approvalList", f"命令名为 SilentReject？静默拒绝应写 {SILENT_REJECT}", _ONE_COLON)
        if not 0 < len(key) <= MAX_RULE_CHARS or key.startswith((":", FAR)):
            shown = json.dumps(rule, ensure_ascii=False)[:60]
            complain("approvalList", f"{shown} 不是规则，已忽略", f"{shown} is no rule and ignored")
            continue
        for one in (key, _far_key(key)):
            if one:
                rules[one] = rules.get(one, False) or silent
    return MappingProxyType(rules)


def _far_key(key: str) -> str:
    """For a rule about ``node#tool`` the key of this tool on any node: pools and labels may lead to this one too."""
    tool, colon, command = key.partition(":")
    return FAR + tool.rpartition(FAR)[2] + colon + command if FAR in tool else ""


class ApprovalFile:
    """The rules of now. The file may be edited while the server runs; a call sees what was saved before it.

    A broken file leaves the last good one in force; while there was none, every call needs approval. Without a file
    none does. ``clock`` gives seconds of a steady clock.
    """

    def __init__(self, home: Path, clock: Callable[[], float]) -> None:
        self._file = LiveFile(home / FILE_NAME, MAX_FILE_BYTES, clock)
        self._clock = clock
        self._rules: ApprovalRules | None = None
        self._gone_since: float | None = None

    def rules(self) -> ApprovalRules:
        """What holds now; looks at the file, which costs one ``stat`` while it is the same."""
        content = self._file.changed(at_once=True)
        if content is not None:
            self._gone_since = None
            if content.error:
                self._broken(both("无法读取", "cannot be read") + f": {content.error}", None)
            elif content.data is not None:
                self._take(content.data)
            elif self._rules is not None:
                self._gone_since = self._clock()
        if self._gone_since is not None and self._clock() - self._gone_since >= GONE_SECONDS:
            self._gone_since, self._rules = None, None
            log.warning("%s is gone: no tool call needs approval any more", self._file.path)
        return self._rules or NO_RULES

    def _take(self, data: bytes) -> None:
        try:
            self._rules, problems = read_rules(data, str(self._file.path))
        except ApprovalFileError as error:
            self._broken(error.message, error.line)
            return
        for problem in problems:
            log.warning("%s", problem)
        if self._rules.enabled:
            which = "every tool call needs" if self._rules.everything else f"{len(self._rules.rules)} rules for"
            log.info("%s: %s approval", FILE_NAME, which)

    def _broken(self, reason: str, line: int | None) -> None:
        told = Problem(str(self._file.path), line, "", reason)
        if self._rules is None:
            self._rules = LOCKED
            log.error("%s; until it can be read every tool call needs approval", told)
        else:
            log.error("%s; the rules stay as they were", told)
