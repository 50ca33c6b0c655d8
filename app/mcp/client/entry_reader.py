"""Reads the values of one entry of ``mcp_servers.json`` by kind, and fills in variables (MOD-6, P84)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from app.errors import VcpError, both

MAX_ITEMS = 1_000
"""Most arguments, variables, headers, patterns or roots of one server."""

MAX_TEXT = 32_000
"""Longest text of an entry, in characters."""

LONG_SECONDS = 3_600.0
"""More than this is likely meant as milliseconds, which some clients write."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_FOREIGN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):[^{}]*\}", re.ASCII)
"""Variables as some clients write them: ``${env:NAME}``, ``${input:NAME}``, ``${NAME:-default}``."""

Complain = Callable[[str, str], None]


class EntryError(VcpError):
    """An entry cannot be used; ``key`` is what is wrong."""

    code = "mcp_server_entry"

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class EntryReader:
    """Reads values of an entry by kind; what has the wrong one is told and passed over."""

    def __init__(self, values: Mapping[str, Any], environ: Mapping[str, str], complain: Complain) -> None:
        self.values = values
        self.environ = environ
        self.complain = complain
        self.missing: dict[str, None] = {}

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if isinstance(value, str) and len(value) <= MAX_TEXT and "\0" not in value:
            return value
        if value is not None:
            self.complain(key, both("应是文本，已忽略", "should be a text and is ignored"))
        return ""

    def switch(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key)
        if isinstance(value, bool):
            return value
        if value is not None:
            self.complain(key, both("应为 true 或 false，已忽略", "should be true or false and is ignored"))
        return default

    def seconds(self, key: str, unit: float = 1.0) -> float | None:
        value = self.values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
            if value * unit > LONG_SECONDS:
                self.complain(key, both("单位是秒；这超过一小时", "counts seconds, and these are more than an hour"))
            return float(value * unit)
        if value is not None:
            self.complain(key, both("应是大于 0 的秒数，已忽略", "should be seconds above 0 and is ignored"))
        return None

    def count(self, key: str) -> int | None:
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 10_000:
            return value
        if value is not None:
            self.complain(key, both("应是 1 到 10000 的整数，已忽略", "should be 1 to 10000 and is ignored"))
        return None

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.values.get(key)
        if isinstance(value, dict):
            return value
        if value is not None:
            self.complain(key, both("应是一个 JSON 对象，已忽略", "should be a JSON object and is ignored"))
        return {}

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; numbers and switches in it become texts, as every client does."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = [value]
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise EntryError(
                both(f"应是至多 {MAX_ITEMS} 个文本的列表", f"should be a list of at most {MAX_ITEMS} texts"), key
            )
        return tuple(self._word(key, item) for item in value)

    def filled(self, key: str) -> Mapping[str, str]:
        """Texts by name, with ``${NAME}`` filled in."""
        given = self.mapping(key)
        if len(given) > MAX_ITEMS:
            raise EntryError(both(f"至多 {MAX_ITEMS} 项", f"has at most {MAX_ITEMS} items"), key)
        return MappingProxyType(
            {
                name: self.fill(key, self._word(f"{key}.{name}", value))
                for name, value in given.items()
                if value is not None
            }
        )

    def fill(self, key: str, text: str) -> str:
        """``text`` with each ``${NAME}`` that is set in place of its name; one pass, everything else stays (P84).

        What looks like a variable of another client stays too, and is told.
        """

        def value_of(found: re.Match[str]) -> str:
            value = self.environ.get(found[1])
            if value is None:
                if found[1] not in self.missing:
                    self.missing[found[1]] = None
                    self.complain(key, both(f"变量 {found[1]} 未设置", f"the variable {found[1]} is not set"))
                return found[0]
            return value

        for word in dict.fromkeys(_FOREIGN.findall(text)):
            chinese = f"${{{word}:…}} 保持原样：只有 ${{NAME}} 形式会替换"
            self.complain(key, both(chinese, f"${{{word}:…}} stays as written: only the form ${{NAME}} is filled in"))
        return _VARIABLE.sub(value_of, text)

    def _word(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise EntryError(both("应是文本", "should be a text"), key)
        return value
