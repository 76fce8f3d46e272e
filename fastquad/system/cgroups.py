"""The control groups of this process (Linux): containers, batch jobs and services limit memory and cores by them.

A group lies within others, and the limits of all of them hold. There are two versions of the interface, which a machine
may have side by side: of version 1 each controller ("memory", "cpu") has a tree of its own, version 2 has one for all.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

#: Below this folder everything is looked up; tests put a tree of their own here.
ROOT = "/"


@cache
def groups(controller: str) -> tuple[tuple[str, int], ...]:
    """(folder, version of the interface) of each group that this process is in, from its own up to the root's.

    Looked up once, for a process hardly ever changes its group.
    """
    found: list[tuple[str, int]] = []
    try:
        own, mounts = _own_groups(controller), _mounts(controller)
    except OSError:  # not on this platform
        return ()
    for version, path in own.items():
        if version not in mounts:
            continue
        root, point = mounts[version]
        inside = os.path.relpath(path, root)
        # A path outside of what is mounted is one of the machine's that a container does not see.
        parts = [] if inside.startswith("..") or inside == "." else inside.split("/")
        for depth in range(len(parts), -1, -1):
            found.append((os.path.join(point, *parts[:depth]), version))
    return tuple(found)


def number(folder: str, name: str) -> int | None:
    """The number in a file of a group; None where there is none, or "max"."""
    try:
        return int(content(os.path.join(folder, name)))
    except (OSError, ValueError):
        return None


def content(path: str, size: int = 4096) -> bytes:
    """The beginning of a file: without the layers of `open`, because every solve asks."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, size)
    finally:
        os.close(file)


def _own_groups(controller: str) -> dict[int, str]:
    """The path of this process's group by version, from lines such as `4:memory:/jobs/7` and `0::/jobs/7`."""
    found: dict[int, str] = {}
    for line in Path(ROOT, "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found[2] = path
        elif controller in controllers.split(","):
            found[1] = path
    return found


def _mounts(controller: str) -> dict[int, tuple[str, str]]:
    """(what of the tree is mounted, where) by version."""
    found: dict[int, tuple[str, str]] = {}
    for line in Path(ROOT, "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        # 36 35 98:0 /root /point options … - type source options
        about, _, system = line.partition(" - ")
        fields, kind = about.split(), system.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            version = 2
        elif kind[0] == "cgroup" and controller in kind[2].split(","):
            version = 1
        else:
            continue
        point = fields[4].encode().decode("unicode_escape")  # a space is \040
        found.setdefault(version, (fields[3], os.path.join(ROOT, point.lstrip("/"))))
    return found
