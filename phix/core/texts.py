"""Texts by name, some of which are written when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping


class Texts(Mapping[str, str]):
    """``made`` are there, ``later`` are written on demand; these come last."""

    def __init__(
        self, made: Mapping[str, str], later: Mapping[str, Callable[[], str]] | None = None
    ) -> None:
        self.made, self.later = dict(made), dict(later or {})
        self._written: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name in self.made:
            return self.made[name]
        if name not in self._written:
            self._written[name] = self.later[name]()
        return self._written[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*self.made, *self.later)

    def __len__(self) -> int:
        return len(self.made) + len(self.later)

    def after(self, first: Mapping[str, str]) -> Texts:
        """These behind others."""
        return Texts({**first, **self.made}, self.later)
