"""Checks the arguments of a tool client's calls against its schema (WS-8), in bounded time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from app.errors import both
from app.extend import Json
from app.protocol.tool_socket import ErrorCode, ToolSocketError
from app.tools.schemas.keywords import ENUM, PATTERN, BoundedKeywords, PatternError

REASON_CHARS = 300

_OURS = {"pattern": PATTERN, "enum": ENUM}

_EMAILS = jsonschema_rs.EmailOptions(allow_display_text=False)


class ArgumentCheck:
    """Says whether arguments fit one schema. ``schema`` is what ``checked_schema`` made.

    Its dialect is a small one, so what a check costs grows with the arguments alone. Raises ToolSocketError
    (INVALID_SCHEMA) for patterns that are none, or too large to be checked in bounded time.
    """

    def __init__(self, schema: Mapping[str, Json]) -> None:
        self._keywords = BoundedKeywords()
        self._validator = jsonschema_rs.Draft202012Validator(
            self._renamed(schema),
            validate_formats=True,
            email_options=_EMAILS,
            keywords=dict(self._keywords.of_library()),
            offline=True,
        )

    def fault(self, arguments: Mapping[str, Json]) -> str | None:
        """Where the first fault of ``arguments`` is and what it is, for people; None when they fit."""
        self._keywords.begin()
        try:
            self._validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            where, reason = f"args{steps}"[:REASON_CHARS], error.message
        except (ValueError, RecursionError):
            where, reason = "args", "nested too deeply"
        else:
            return None
        reason = reason[:REASON_CHARS]
        return both(
            f"参数不符合 schema：{where}：{reason}", f"the arguments do not fit the schema at {where}: {reason}"
        )

    def _renamed(self, schema: Mapping[str, Json]) -> dict[str, Any]:
        """The schema with our keywords in place of those of the library; compiles its patterns."""
        plain = {_OURS.get(keyword, keyword): value for keyword, value in schema.items()}
        if "pattern" in schema:
            self._compile(schema["pattern"])
        if "properties" in plain:
            plain["properties"] = {name: self._renamed(node) for name, node in plain["properties"].items()}
        if "items" in plain:
            plain["items"] = self._renamed(plain["items"])
        return plain

    def _compile(self, text: str) -> None:
        try:
            self._keywords.compile(text)
        except PatternError as error:
            raise ToolSocketError(
                ErrorCode.INVALID_SCHEMA,
                both(
                    f"schema 的 pattern 有误、过长、过大或过多：{error.text!r}",
                    f"a pattern of the schema is wrong, too long, too large or one too many: {error.text!r}",
                ),
            ) from None
