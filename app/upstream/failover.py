"""Which upstream a request asks next, and what it is told when all have failed. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import UpstreamError, both
from app.extend import UpstreamTarget
from app.upstream.fleet import Standing

_ANOTHER_MAY_DO = frozenset({401, 402, 403, 404, 407, 408, 429})


def fails_over(status: int) -> bool:
    """Whether another upstream may do better where one answered with this status.

    Keys, credits and models differ from one upstream to the next; what is wrong with the request itself does not.
    """
    return status in _ANOTHER_MAY_DO or status >= 500 or 300 <= status < 400


def is_unwell(status: int) -> bool:
    """Whether the status says that the upstream itself is in trouble; one that lacks a model is not."""
    return fails_over(status) and status != 404


class Candidate:
    """One upstream that may serve a request: attempts so far, and when it may be asked again.

    ``wait`` are the seconds of pause that are left before the next one. ``spare``: one attempt on a kept connection
    that turned out to be closed costs nothing. ``plainer``: the request goes there without our tools;
    ``refused_tools`` is the status of a refusal of them, 0 for none.
    """

    __slots__ = ("_trial", "attempts", "error", "plainer", "refused_tools", "spare", "standing", "target", "wait")

    def __init__(self, target: UpstreamTarget, standing: Standing) -> None:
        self.target = target
        self.standing = standing
        self.attempts = 0
        self.wait = 0.0
        self.spare = True
        self.plainer = False
        self.refused_tools = 0
        self.error: UpstreamError | None = None
        self._trial = False

    def begin(self, now: float) -> None:
        """An attempt begins."""
        self.standing.attempts += 1
        self._trial = self.standing.health.begin(now)

    def succeeded(self) -> None:
        """The upstream is well, whatever it said to this request."""
        self.standing.health.succeed()

    def failed(
        self, now: float, pause: float, chance: float, *, grave: bool = False, wanted: float | None = None
    ) -> None:
        """The upstream is in trouble; the arguments are those of ``Health.fail``."""
        self.standing.faults += 1
        self.standing.health.fail(now, pause, chance, grave=grave, wanted=wanted)

    def end_trial(self) -> None:
        """The attempt tells nothing of the upstream's health."""
        if self._trial:
            self.standing.health.abandon()


class FailOver:
    """The candidates of one request.

    Each is asked once in turn; those that may be asked again are, when their pause is over, until they have had all
    their attempts. Those that are spared because they failed lately come after all others. An attempt, however long it
    takes, shortens nobody's pause.
    """

    __slots__ = ("_asked", "_open", "_total")

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._open = list(candidates)
        self._total = len(self._open)
        self._asked: list[Candidate] = []

    @property
    def several(self) -> bool:
        """Whether the request has more than one candidate; a lone one has no pauses of its own."""
        return self._total > 1

    @property
    def over(self) -> bool:
        """True when nobody is left to ask."""
        return not self._open

    def next(self, now: float) -> Sequence[Candidate]:
        """Who may be asked now, the best first; empty when a pause comes first.

        Sound ones if there are any, else those that are spared, the one with the shortest rest first.
        """
        if self._total == 1:
            return () if self._open[0].wait else self._open
        due = [candidate for candidate in self._open if not candidate.wait]
        sound = [candidate for candidate in due if not candidate.standing.health.rest(now)]
        return sound or sorted(due, key=lambda candidate: candidate.standing.health.rest(now))

    def pause(self) -> float:
        """Seconds until somebody may be asked again; they count as passed from now on."""
        seconds = min(candidate.wait for candidate in self._open)
        for candidate in self._open:
            candidate.wait -= seconds
        return seconds

    def failed(self, candidate: Candidate, error: UpstreamError, wait: float | None) -> None:
        """The attempt brought nothing; the candidate may be asked again after ``wait`` seconds, or not at all."""
        candidate.error = error
        if candidate not in self._asked:
            self._asked.append(candidate)
        if wait is None:
            self._open.remove(candidate)
        else:
            candidate.wait = wait

    def drop(self, candidate: Candidate) -> None:
        """The candidate is not asked again; what it said is kept elsewhere."""
        self._open.remove(candidate)

    def error(self) -> UpstreamError:
        """What the request is told: what the upstream that was asked first said last."""
        error = self._asked[0].error
        assert error is not None  # it is set together
        if self.several:
            said = both(f"{self._total} 个上游均失败", f"all {self._total} upstreams failed")
            error.message = f"{error.message} ({said})"
            error.args = (error.message,)
        return error
