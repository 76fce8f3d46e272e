"""How far ahead the kernels prefetch, measured on the machine at hand: at the first pass over a large tensor.

What is best depends on the processor more than on anything else: from 4 cache lines to 160, past the caches or not, and
a wrong choice costs a third of a pass. Results keep their bits, whatever is chosen. The choice takes some milliseconds
and is kept in the user's cache folder, for this processor and version; if it cannot be kept, each process measures.

`FASTQUAD_PREFETCH` says it instead: "16" lines ahead, "160 once" past the caches, "0" as what stays in the caches.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import thread_time
from types import ModuleType
from typing import Any

from fastquad._kernels import packed
from fastquad.system import files
from fastquad.typing import Number

#: Cache lines ahead, and whether past the caches: the best on the cores that were seen (kernels/layout.h) and between.
STREAMS = ((4, False), (8, False), (16, False), (48, False), (128, False), (80, True), (160, True))
#: Bytes read at a time. All settings three times are 100 MB, which is some milliseconds.
PART = 4 << 20
#: A tensor this many times larger than the cache is measured on: a part is gone from it when its turn comes again.
TIMES_CACHE = 3
ROUNDS = 3
#: More lines ahead than this would leave a page unread.
MOST_LINES = 1024
# Another setting must be this much faster than that for the processor's name, or it is noise.
_GAIN = 0.03

_settled: set[str] = set()

#: The arguments of a setter of the kernels.
Setting = tuple[Any, ...]
#: Something that reads the blocks start..stop−1 of a tensor.
Run = Callable[[int, int], object]


def settle_streams(kernels: ModuleType, P: Number, run: Run) -> None:
    """Choose how the module's kernels prefetch streams of such entries, once; `run` reads blocks start..stop−1 of P."""
    said = os.environ.get("FASTQUAD_PREFETCH")
    if said:
        lines, _, how = said.partition(" ")
        if not lines.isdecimal() or how not in ("", "once"):
            raise ValueError(f"`FASTQUAD_PREFETCH` must be a number of cache lines, or '160 once', got {said!r}.")
        kernels.set_stream(P.itemsize, min(int(lines), MOST_LINES), how == "once")
        return
    name = f"{kernels.__name__.rpartition('.')[2]} {P.itemsize}"
    known = kernels.stream(P.itemsize)
    _settle(name, (known, *STREAMS), lambda setting: kernels.set_stream(P.itemsize, *setting), P, run)


def settle_tiles(P: Number, run: Run) -> None:
    """Choose into which cache the kernels for many signals prefetch their tiles."""
    known = packed.tiles()
    _settle("tiles", ((known,), (not known,)), lambda setting: packed.set_tiles(*setting), P, run)


def _settle(
    name: str,
    settings: Sequence[Setting],
    put: Callable[[Setting], object],
    P: Number,
    run: Run,
) -> None:
    """Put the setting that is kept for this machine, or else measure which is the fastest, and keep it."""
    if name in _settled or P.nbytes < TIMES_CACHE * packed.cached or _is_mapped(P):
        return
    _settled.add(name)
    kept = _of_machine(_read())
    chosen = next((setting for setting in settings if list(setting) == kept.get(name)), None)
    if chosen is None:
        chosen = _fastest(settings, put, P, run)
        _keep({**kept, name: chosen})
    put(chosen)


def _fastest(settings: Sequence[Setting], put: Callable[[Setting], object], P: Number, run: Run) -> Setting:
    """The setting that reads parts of P fastest, each in its turn and none of what was read just before.

    The first is what is known of the processor by its name: another one must be clearly faster.
    """
    blocks = max(1, PART // P[0].nbytes)
    least = [math.inf] * len(settings)
    start = 0
    for _ in range(ROUNDS):
        for i, setting in enumerate(settings):
            start = start if start + blocks <= len(P) else 0
            put(setting)
            begin = thread_time()
            run(start, min(start + blocks, len(P)))
            least[i] = min(least[i], thread_time() - begin)  # what else runs makes it longer, and never shorter
            start += blocks
    best = min(range(len(settings)), key=least.__getitem__)
    return settings[best if least[best] < (1 - _GAIN) * least[0] else 0]


def _is_mapped(P: Number) -> bool:
    """Whether the array may have to come from a disk."""
    base: Any = P
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None


# -- what was measured before ---------------------------------------------------------------------------------------


def _path() -> Path:
    folder = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "fastquad" / "prefetch.json"


def machine() -> str:
    """The processor as the system names it, and the level of SIMD in use."""
    words = ("vendor_id", "cpu family", "model", "model name", "stepping")
    said: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            word, _, value = line.partition(":")
            if word.strip() in words:
                said.setdefault(word.strip(), value.strip())
    processor = " ".join(said.values()) or f"{platform.machine()} {platform.processor()}"
    return f"{processor}, {packed.simd}"


def _read() -> dict[str, Any]:
    """What was kept, by machine; nothing if there is no such file, or if it says something else."""
    with suppress(OSError, ValueError, RuntimeError), files.open_regular(_path()) as stream:
        kept = files.parsed(stream.read(1 << 16))
        return kept if isinstance(kept, dict) else {}
    return {}


def _of_machine(kept: dict[str, Any]) -> dict[str, Any]:
    mine = kept.get(machine())
    return mine if isinstance(mine, dict) else {}


def _keep(settings: dict[str, Any]) -> None:
    """Keep the settings of this machine, beside those of others that share the folder."""
    with suppress(OSError, RuntimeError):
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({**_read(), machine(): settings}, indent=1)
        with files.replacing(path, "prefetch") as stream:
            stream.write(content.encode())
