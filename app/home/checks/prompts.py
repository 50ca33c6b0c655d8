"""Checks of agents, variables and their files: what is missing, unreadable, circular, or stays as written (3, P61)."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.config import dotenv
from app.config.snapshot import CONFIG_FILE
from app.errors import ConfigError
from app.home.checks.findings import (
    Finding,
    Installation,
    JsonFault,
    Level,
    Topic,
    entries,
    line_and_column,
    read_json_file,
)
from app.home.checks.placeholders import ANGLES, BRACES, RECALL, Providers, Verdict
from app.home.checks.plugins import PluginCheck
from app.prompt.agents import AgentMap, parse_agent_map
from app.prompt.files import MAX_FILE_BYTES, TextFiles, contained
from app.protocol.prompt_texts import DIARY_SUFFIX

AGENT_MAP = "agent_map.json"
TEXT_SUFFIXES = (".txt", ".md")
MAX_UNUSED_TOLD = 20


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that prompts are made of: its node in the graph of inclusion, and where it stands."""

    node: str
    text: str
    file: str
    line: int | None = None
    """Of a value in ``config.env``; texts of files have their own lines."""

    def place(self, offset: int) -> tuple[int | None, int | None]:
        return (self.line, None) if self.line is not None else line_and_column(self.text, offset)


@dataclass(slots=True)
class _Edges:
    """What includes what: node to node, with the place of the first such placeholder."""

    of: dict[str, dict[str, tuple[_Text, int]]] = field(default_factory=dict)

    def add(self, text: _Text, target: str, offset: int) -> None:
        self.of.setdefault(text.node, {}).setdefault(target, (text, offset))


def check_prompts(installation: Installation, plugins: PluginCheck) -> Iterator[Finding]:
    """Findings about everything that prompts are made of."""
    check = _Check(installation, plugins)
    check.run()
    yield from check.findings


class _Check:
    def __init__(self, installation: Installation, plugins: PluginCheck) -> None:
        self._installation = installation
        self._config = installation.config
        self._home = installation.home
        self._plugins = plugins
        self._agent_files = TextFiles(self._home / "Agent")
        self._variable_files = TextFiles(self._home / "TVStxt")
        self._order = {name: place for place, (name, _) in enumerate(self._config.families.variables)}
        self._any_order = self._config.settings.resolve_variables_in_any_order
        self._edges = _Edges()
        self._used: set[Path] = set()
        self.findings: list[Finding] = []

    def run(self) -> None:
        aliases = self._aliases()
        providers = Providers(self._installation, self._plugins, frozenset(aliases))
        texts = [*self._agent_texts(aliases), *self._variable_texts()]
        for text in texts:
            self._look(text, providers, frozenset(aliases))
        self._cycles()
        self._unused("Agent")
        self._unused("TVStxt")

    def _find(
        self,
        level: Level,
        chinese: str,
        english: str,
        file: str,
        line: int | None = None,
        column: int | None = None,
        subject: str = "",
    ) -> None:
        self.findings.append(Finding(level, Topic.PROMPTS, chinese, english, file, line, column, subject))

    # ------------------------------------------------------------ agents

    def _aliases(self) -> dict[str, tuple[str, int | None]]:
        """Alias to file and to its line in the map."""
        value = read_json_file(self._home / AGENT_MAP)
        if value is None:
            if any(entry.name.lower().endswith(TEXT_SUFFIXES) for entry in entries(self._home / "Agent")):
                self._find(
                    Level.WARNING,
                    "没有 agent_map.json，Agent/ 中的文件都不会使用",
                    "there is no agent_map.json, so no file in Agent/ is used",
                    AGENT_MAP,
                )
            return {}
        if isinstance(value, JsonFault):
            self.findings.append(value.finding(Level.ERROR, Topic.PROMPTS, AGENT_MAP))
            return {}
        try:
            text = (self._home / AGENT_MAP).read_text(encoding="utf-8-sig")
            found = parse_agent_map(text, AGENT_MAP)
        except OSError:
            return {}  # it went away this very moment
        except ValueError:
            self._find(Level.ERROR, "应是一个 JSON 对象", "must be a JSON object", AGENT_MAP)
            return {}
        self._entries_that_are_none(text, value, found)
        return {alias: (path, _line_of_key(text, alias)) for alias, path in found.aliases.items()}

    def _entries_that_are_none(self, text: str, value: object, found: AgentMap) -> None:
        for alias in value if isinstance(value, dict) else ():
            if alias not in found.aliases and not alias.startswith("//"):
                self._find(
                    Level.ERROR,
                    "该 Agent 的值不是文件路径",
                    "the value of this agent is no file path",
                    AGENT_MAP,
                    _line_of_key(text, alias),
                    subject=alias,
                )

    def _agent_texts(self, aliases: dict[str, tuple[str, int | None]]) -> Iterator[_Text]:
        for alias, (path, line) in aliases.items():
            text = self._read(self._agent_files, path, AGENT_MAP, line, alias)
            if text is not None:
                yield _Text(f"agent:{alias}", text, f"Agent/{path.replace(chr(92), '/')}")

    # ------------------------------------------------------------ variables

    def _variable_texts(self) -> Iterator[_Text]:
        try:
            lines = dotenv.read(self._home / CONFIG_FILE).lines()
        except ConfigError:
            return  # told among the settings
        values = [*self._config.families.variables]
        values += [(f"SarPrompt{rule.number}", rule.prompt) for rule in self._config.families.sar]
        for name, value in values:
            if name not in lines:
                continue  # from the operating system: not a text of this installation
            if not value.lower().endswith(".txt"):
                yield _Text(name, value, CONFIG_FILE, lines[name])
            else:
                text = self._read(self._variable_files, value, CONFIG_FILE, lines[name], name)
                if text is not None:
                    yield _Text(name, text, f"TVStxt/{value.replace(chr(92), '/')}")

    # ------------------------------------------------------------ files

    def _read(self, files: TextFiles, path: str, named_in: str, line: int | None, subject: str) -> str | None:
        """The text of a file, or None and a finding at the place that names it."""
        folder = files.root.name
        try:
            real = contained(files.root, path)
            status = real.stat()
        except FileNotFoundError:
            similar = files.similar(path)
            hint_zh = f"；有大小写不同的 {similar}" if similar else ""
            hint = f"; there is {similar}, and capitals count" if similar else ""
            self._find(
                Level.ERROR,
                f"文件 {folder}/{path} 不存在{hint_zh}",
                f"the file {folder}/{path} does not exist{hint}",
                named_in,
                line,
                subject=subject,
            )
            return None
        except OSError as error:
            reason = error.strerror or str(error)
            self._find(
                Level.ERROR,
                f"文件 {folder}/{path} 不可用：{reason}",
                f"the file {folder}/{path} cannot be used: {reason}",
                named_in,
                line,
                subject=subject,
            )
            return None
        self._used.add(real)
        shown = self._installation.shown(real)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            self._find(
                Level.ERROR,
                f"不是普通文件，或超过 {MAX_FILE_BYTES} 字节",
                f"is not a regular file, or larger than {MAX_FILE_BYTES} bytes",
                shown,
                subject=subject,
            )
            return None
        try:
            data = real.read_bytes()
            return data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            self._find(
                Level.ERROR,
                f"不是 UTF-8 编码（字节 {data[error.start]:#04x}），文字会变成乱码；请另存为 UTF-8",
                f"is not UTF-8 (byte {data[error.start]:#04x}), letters get lost; save it as UTF-8",
                shown,
                data.count(b"\n", 0, error.start) + 1,
                subject=subject,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            self._find(Level.ERROR, f"无法读取：{reason}", f"cannot be read: {reason}", shown, subject=subject)
        return None

    def _unused(self, folder: str) -> None:
        root = self._home / folder
        unused = [
            path
            for path in (sorted(root.rglob("*")) if root.is_dir() else ())
            if path.suffix.lower() in TEXT_SUFFIXES and path.is_file() and path.resolve() not in self._used
        ]
        if unused:
            names = ", ".join(path.relative_to(root).as_posix() for path in unused[:MAX_UNUSED_TOLD])
            more = f", … (+{len(unused) - MAX_UNUSED_TOLD})" if len(unused) > MAX_UNUSED_TOLD else ""
            self._find(
                Level.NOTE,
                f"{len(unused)} 个文件没有被引用：{names}{more}",
                f"{len(unused)} files that nothing names: {names}{more}",
                f"{folder}/",
            )

    # ------------------------------------------------------------ placeholders

    def _look(self, text: _Text, providers: Providers, aliases: frozenset[str]) -> None:
        """Every placeholder of a text: what it includes, and each kind of fault once."""
        told: set[str] = set()
        found = [*BRACES.finditer(text.text), *ANGLES.finditer(text.text)]
        for match in sorted(found, key=lambda match: match.start()):
            name = match[1]
            if match[0].startswith("<<") and name.endswith(DIARY_SUFFIX):
                continue  # a recall form (D17)
            verdict = self._included(text, name, match.start(), aliases) or providers.verdict(name)
            if verdict is not None and name not in told:
                told.add(name)
                self._tell(text, match.start(), match[0], verdict)
        recall = providers.recall_verdict()
        if recall is not None:
            for match in RECALL.finditer(text.text):
                self._tell(text, match.start(), match[0], recall)

    def _tell(self, text: _Text, offset: int, subject: str, verdict: Verdict) -> None:
        line, column = text.place(offset)
        self._find(verdict.level, verdict.chinese, verdict.english, text.file, line, column, subject)

    def _included(self, text: _Text, name: str, offset: int, aliases: frozenset[str]) -> Verdict | None:
        """Remember what is included; a verdict for what is there but will not be expanded in this place (3.2)."""
        alias = name.removeprefix("agent:")
        if alias in aliases:
            if not text.node.startswith("agent:"):
                return Verdict(
                    Level.WARNING,
                    "变量中的 Agent 不会展开，会原样保留",
                    "agents inside variables are not expanded; it stays as written",
                )
            self._edges.add(text, f"agent:{alias}", offset)
        elif name in self._order or name.startswith("SarPrompt"):
            place = self._order.get(text.node)
            plain = text.line is not None and not self._any_order
            if plain and place is not None and self._order.get(name, -1) < place:
                return Verdict(
                    Level.WARNING,
                    f"{name} 先于 {text.node} 展开，在此处原样保留；请调换顺序，或设 ResolveVariablesInAnyOrder=true",
                    f"{name} is expanded before {text.node}, so it stays as written here; change their order, or set "
                    "ResolveVariablesInAnyOrder=true",
                )
            self._edges.add(text, name, offset)
        return None

    # ------------------------------------------------------------ cycles

    def _cycles(self) -> None:
        """Tell each text that includes itself, by the placeholder that closes the circle (P54)."""
        done: set[str] = set()
        for start in self._edges.of:
            stack: list[tuple[str, Iterator[str]]] = [(start, iter(self._edges.of[start]))]
            path = [start]
            while stack:
                node, targets = stack[-1]
                target = next(targets, None)
                if target is None or node in done:
                    done.add(node)
                    stack.pop()
                    path.pop()
                elif target in path:
                    self._cycle(node, target, path)
                elif target in self._edges.of and target not in done:
                    stack.append((target, iter(self._edges.of[target])))
                    path.append(target)

    def _cycle(self, node: str, target: str, path: list[str]) -> None:
        text, offset = self._edges.of[node][target]
        line, column = text.place(offset)
        shown = " → ".join([*path[path.index(target) :], target])
        self._find(
            Level.ERROR,
            f"循环引用：{shown}",
            f"includes itself: {shown}",
            text.file,
            line,
            column,
            "{{" + target + "}}",
        )


def _line_of_key(text: str, key: str) -> int | None:
    for written in (json.dumps(key, ensure_ascii=False), json.dumps(key)):
        offset = text.find(written)
        if offset >= 0:
            return line_and_column(text, offset)[0]
    return None
