"""Tool calls as functions of the chat API, beside marked text (spec 11.3, D76)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.chat.native_intake import ReplyIntake
from app.chat.native_tools import PASSWORD, NativeOffer, NativeTools
from app.chat.text_format import TextCallFormat, extended
from app.errors import both
from app.extend import Body, CallOutcome, ErrorKind, FoundCall, Json, Message, ToolCall, ToolResult
from app.protocol.arguments import declared_properties, fold, fold_names, from_text, is_unset
from app.protocol.json_text import compact_json
from app.protocol.native_calls import NativeCall, object_of
from app.protocol.nulls import without_nulls
from app.tools.offers import Offered
from app.tools.rendering import Part

_UNIVERSAL = ("maid", "timely_contact")
"""Arguments that every tool takes, whatever its schema says (spec 4.2, 7.2)."""

QUOTE_CHARS = 200
"""So much of what cannot be read is shown to the model."""

Fault = Callable[[Mapping[str, Json], Json], str]
"""What is wrong with a value under a JSON Schema, empty when nothing is; takes bounded time."""

_SILENT = both("该调用被拒绝，未执行。", "the call was rejected and not run.")
_SHOT = both("该调用不要回复，没有结果返回。", "called without reply; no result follows.")
_MORE = both("（其余内容见随后的用户消息）", "(the rest stands in the user message that follows)")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call of ours, as it stands in the history and as it is run; ``place`` orders them as they were written."""

    place: int
    entry: Mapping[str, Json]
    call: ToolCall


class NativeCallFormat:
    """Offers our tools as functions after the client's own, and finds calls of them; ``text`` finds those in text.

    A function call needs an answer of its own, whatever became of it: a ``tool`` message with its ``tool_call_id``.
    """

    def __init__(
        self,
        text: TextCallFormat,
        tools: NativeTools,
        fault: Fault,
        new_id: Callable[[], str],
        *,
        password_wanted: bool = False,
    ) -> None:
        self._text = text
        self._tools = tools
        self._fault = fault
        self._new_id = new_id
        self._password_wanted = password_wanted
        self._offer: NativeOffer | None = None
        self._intake: ReplyIntake | None = None
        self._asked: list[_Asked] = []
        self._ids: set[str] = set()

    @property
    def native(self) -> ReplyIntake | None:
        """What takes our calls out of the reply, if this round offers any."""
        return self._intake

    def offer(self, body: Body) -> Body:
        """The body with our tools behind the client's; the body itself when none are offered."""
        self._offer = self._tools.offer(body, code_wanted=self._password_wanted)
        if self._offer is None:
            return body
        self._intake = ReplyIntake(self._offer.ours, self._offer.theirs)
        return {**body, "tools": [*(body.get("tools") or ()), *self._offer.entries]}

    def feed(self, delta: Mapping[str, Json]) -> Sequence[FoundCall]:
        """Calls in the delta's text, and those function calls that have become complete."""
        return (*self._text.feed(delta), *self._complete())

    def finish(self) -> Sequence[FoundCall]:
        """A block that was left open, and the function calls that nothing followed."""
        return (*self._text.finish(), *self._complete())

    def hidden(self) -> Sequence[tuple[int, int]]:
        """Think parts and tool blocks of the text."""
        return self._text.hidden()

    def append(self, body: Body, reply: str, outcomes: Sequence[CallOutcome]) -> Body:
        """The reply with its calls, an answer to each, and one user message with what else there is (D76)."""
        if self._intake is None or not self._asked:
            return self._text.append(body, reply, outcomes)
        told = {outcome.call.id: outcome for outcome in outcomes}
        written = sorted(self._asked, key=lambda asked: asked.place)
        assistant: Message = {
            "role": "assistant",
            "content": reply if reply.strip() else None,
            **self._intake.thoughts(),
            "tool_calls": [asked.entry for asked in written],
        }
        answers: list[Message] = []
        others: list[Part] = []
        for asked in written:
            content, more = self._answer(asked.call, told.pop(asked.call.id, None))
            answers.append({"role": "tool", "tool_call_id": asked.entry["id"], "content": content})
            others += more
        parts = [*self._text.parts(tuple(told.values())), *others]
        last = [self._text.results_message(parts)] if parts else []
        return extended(body, [assistant, *answers, *last])

    def _answer(self, call: ToolCall, outcome: CallOutcome | None) -> tuple[str, list[Part]]:
        """The text of a ``tool`` message, which takes nothing else at many upstreams, and what is no text."""
        if outcome is None:
            return _SHOT if call.archery else _SILENT, []
        texts: list[str] = []
        others: list[Part] = []
        for part in self._text.parts((outcome,)):
            text = part.get("text")
            if part.get("type") == "text" and isinstance(text, str):
                texts.append(text)
            else:
                others.append(part)
        if not others:
            return "\n".join(texts), []
        said = both(f'工具 "{call.tool}" 的其余内容：', f'the rest of what tool "{call.tool}" gave:')
        return "\n".join((*texts, _MORE)), [{"type": "text", "text": said}, *others]

    def _complete(self) -> list[FoundCall]:
        return [] if self._intake is None else [self._found(written) for written in self._intake.calls()]

    def _found(self, written: NativeCall) -> FoundCall:
        assert self._offer is not None
        offered = self._offer.ours[written.name]
        refused: ToolResult | None = None
        sound = written.arguments.lstrip().startswith("{")
        try:
            arguments = object_of(written.arguments)
        except ValueError as error:
            arguments, sound = {}, False
            refused = _refusal(_unreadable(written.arguments, error))
        call = self._call(offered, dict(arguments))
        if refused is None and offered.command is not None and offered.command.parameters is not None:
            fitted, fault = self._fitted(offered.command.parameters, call.arguments)
            call = call.given(fitted, {})
            refused = _refusal(fault) if fault else None
        if refused is not None and call.archery:
            call = replace(call, archery=False)  # the fault is worth telling
        entry = {
            "id": written.id if written.id and written.id not in self._ids else call.id,
            "type": "function",
            # What is no object must not stand in the history: many upstreams read it.
            "function": {
                "name": offered.name,
                "arguments": written.arguments if sound else compact_json(arguments),
            },
            **written.extra,
        }
        self._ids.add(entry["id"])
        self._asked.append(_Asked(written.place, entry, call))
        return FoundCall(call, refused=refused)

    def _call(self, offered: Offered, arguments: dict[str, Json]) -> ToolCall:
        """The call, with the words that mean something for every tool as in text (spec 4.2)."""
        declared = declared_properties(offered.input_schema)
        archery = password = None
        for key in [key for key in arguments if key not in declared]:
            if fold(key) == "archery":
                archery = arguments.pop(key)
            elif fold(key) == fold(PASSWORD) and self._password_wanted:
                password = arguments.pop(key)
        maid = arguments.get("maid")
        return ToolCall(
            id=self._new_id(),
            tool=offered.full_name,
            arguments=arguments,
            archery=archery in (True, "true", "no_reply"),
            password=str(password) if isinstance(password, str | int) else None,
            maid=maid if isinstance(maid, str) and maid else None,
        )

    def _fitted(self, schema: Mapping[str, Json], arguments: Mapping[str, Json]) -> tuple[dict[str, Json], str]:
        """The arguments as the schema has them, and what is wrong with them.

        Models write ``"5"`` where a number is wanted, and nothing or null for what they leave open; that is read as in
        marked calls, if it helps.
        """
        declared = declared_properties(schema)
        universal = {name: arguments[name] for name in _UNIVERSAL if name in arguments and name not in declared}
        named = fold_names({name: arguments[name] for name in arguments if name not in universal}, declared)
        fault = self._fault(schema, named)
        if fault:
            read = _read(named, declared, schema)
            if not self._fault(schema, read):
                named, fault = read, ""
        return {**named, **universal}, fault


def _read(arguments: Mapping[str, Json], declared: Mapping[str, Json], schema: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments with texts read by the schema, and without those that were left open (P86)."""
    required = schema.get("required")
    needed = required if isinstance(required, list | tuple) else ()
    read: dict[str, Json] = {}
    for name, value in without_nulls(arguments, schema).items():
        own = declared.get(name)
        if not isinstance(own, Mapping) or not isinstance(value, str):
            read[name] = value
        elif name in needed or not is_unset(value, own, schema):
            read[name] = from_text(value, own, schema)
    return read


def _unreadable(arguments: str, error: ValueError) -> str:
    shown = arguments if len(arguments) <= QUOTE_CHARS else arguments[:QUOTE_CHARS] + "…"
    return both(
        f"参数必须是一个 JSON 对象，收到的是：{shown}（{error}）",
        f"the arguments must be one JSON object, but this came: {shown} ({error})",
    )


def _refusal(fault: str) -> ToolResult:
    return ToolResult(error_kind=ErrorKind.EXECUTION, message=fault)
