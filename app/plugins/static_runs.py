"""One run of a static plugin: a process whose standard output is the value (spec 5.3-5.6 static; P77, P79).

A run leaves nothing behind, helpers that it started included: it comes again by its timetable, and what it left would
pile up. Nothing is written to its standard input.
"""

from __future__ import annotations

import codecs
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.errors import both
from app.plugins.command import CommandError
from app.plugins.discovery import Plugin
from app.plugins.environment import ServerFacts, child_environment, resolve_settings
from app.plugins.output import stderr_text
from app.plugins.places import Limits, QueueError, StoppingError
from app.plugins.processes import Ending, Job, Processes, Ran
from app.plugins.starting import plan_start, why_not_started
from app.protocol.blanks import trimmed

STATIC_LIMITS = Limits(running=4, queued=10_000, queue_seconds=86_400.0, output_bytes=16 * 1024 * 1024)
"""Static plugins run beside tools, in places of their own, and few at a time: nobody waits for them, and those that
have the same minute in their timetables, or all of them at the start, must not take the machine away from tools."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaticRun:
    """What came of a run: the text printed (trimmed, maybe empty) or None when it failed, and what there is to complain
    about, in both languages; a run that was ended at its limit may have both.
    """

    text: str | None
    problem: str = ""


class StaticRunner:
    """Runs static plugins. ``environ`` gives the server's environment of now, ``config.env`` included."""

    def __init__(
        self,
        processes: Processes,
        *,
        project_base: Path,
        environ: Callable[[], Mapping[str, str]],
        server_python: str = sys.executable,
    ) -> None:
        self._processes = processes
        self._project_base = project_base.absolute()
        self._environ = environ
        self._server_python = server_python

    def settings(self, plugin: Plugin) -> Mapping[str, str]:
        """The plugin's settings of now; when they change, its value is out of date."""
        return resolve_settings(plugin.manifest, plugin.own, self._environ())

    async def run(self, plugin: Plugin) -> StaticRun | None:
        """Run the plugin once; None when the server is stopping. Raises nothing but the caller's own cancellation."""
        try:
            ran = await self._processes.run(self._job(plugin), _wait_for_the_end, lambda **_: None)
        except (CommandError, QueueError) as error:
            return StaticRun(None, error.message)
        except StoppingError:
            return None
        except OSError as error:
            return StaticRun(None, f"{both('无法启动', 'cannot be started')}: {why_not_started(error)}")
        except Exception as error:
            # The plugin boundary: whatever a manifest provokes in here must not end the timetable.
            log.exception("running static plugin %s failed", plugin.name)
            return StaticRun(None, f"{both('无法运行', 'cannot be run')}: {error}")
        return _outcome(plugin, ran, self._processes.limits.output_bytes)

    async def stop(self) -> None:
        """End every process within bounded time."""
        await self._processes.stop()

    def _job(self, plugin: Plugin) -> Job:
        facts = ServerFacts(project_base=self._project_base)
        child = child_environment(plugin.manifest, plugin.own, self._environ(), facts)
        argv, environment = plan_start(plugin, child, self._project_base, self._server_python)
        return Job(
            name=plugin.name,
            argv=argv,
            folder=plugin.folder,
            environment=environment,
            stdin=b"",
            timeout=plugin.manifest.timeout,
            max_running=1,
        )


def _wait_for_the_end(stdout: bytearray) -> str | None:
    """No output of a static plugin is an answer before its process has ended (P79)."""
    del stdout
    return None


def _outcome(plugin: Plugin, ran: Ran[str], output_bytes: int) -> StaticRun | None:
    if ran.ending is Ending.STOPPED:
        return None
    if ran.ending is Ending.FLOODED:
        said = both(f"输出超过上限 {output_bytes} 字节", f"printed more than the limit of {output_bytes} bytes")
        return StaticRun(None, said)
    text = _text(ran.stdout)
    if ran.ending is Ending.TIMED_OUT:
        seconds = plugin.manifest.timeout
        problem = both(f"运行超过 {seconds:g} 秒，已被结束", f"ended at its limit of {seconds:g} s")
        return StaticRun(text or None, problem)
    if ran.exit_code == 0:
        return StaticRun(text)
    said = both(f"退出码 {ran.exit_code}", f"exit code {ran.exit_code}")
    # The last line of a stack trace says what happened, the first ones only where.
    last_words = stderr_text(ran.stderr) or text[:200]
    return StaticRun(None, f"{said}: {last_words.rpartition(chr(10))[2].strip()}" if last_words else said)


def _text(stdout: bytearray) -> str:
    """The output as text: UTF-8, wrong bytes replaced; a character that was cut at the end is left out."""
    return trimmed(codecs.getincrementaldecoder("utf-8")("replace").decode(stdout))
