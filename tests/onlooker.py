"""Somebody who watches a job."""

from collections.abc import Callable

from pivotal.searches import Progress


class Onlooker:
    """Remembers what it is told, and does something at a text that begins like `when`, or at an update of a phase."""

    def __init__(
        self, when: str | tuple[str, int] = ("", -1), act: Callable[[], object] = lambda: None
    ) -> None:
        self.said: list[str] = []
        self.seen: list[Progress] = []
        self._when, self._act = when, act

    def say(self, text: str) -> None:
        self.said.append(text)
        if isinstance(self._when, str) and text.startswith(self._when):
            self._act()

    def progress(self, progress: Progress) -> None:
        self.seen.append(progress)
        if (progress.phase, progress.update) == self._when:
            self._act()
