"""What a prior is: the little that the front door has to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class Prior(ABC):
    """What is known of the signal."""

    #: "sparse" or "generative": a method says with which kinds it works.
    kind: ClassVar[str]

    @abstractmethod
    def check(self, n: int) -> None:
        """Raise ValueError where this cannot be the prior of a signal of length n."""
