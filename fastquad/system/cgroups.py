"""The control groups of this process (Linux): containers, batch jobs and services limit memory and cores by them.

Groups are nested, and the limits of all groups around a process apply. A machine may offer both versions of the
interface side by side: version 1 has a separate tree for each controller ("memory", "cpu"), version 2 has one tree for
all.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

#: The root folder of all lookups; tests replace it with a tree of their own.
ROOT = "/"


@cache
def groups(controller: str) -> tuple[tuple[str, int], ...]:
    """(folder, version of the interface) of each group that this process is in, from its own up to the root's.

    Looked up once: a process hardly ever changes its group.
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
        # In a container the path may lie outside of what is mounted; then only the mounted root is visible.
        parts = [] if inside.startswith("..") or inside == "." else inside.split("/")
        for depth in range(len(parts), -1, -1):
            found.append((os.path.join(point, *parts[:depth]), version))
    return tuple(found)


def number(folder: str, name: str) -> int | None:
    """The number in a file of a group; None where the file is missing or says "max"."""
    try:
        return int(content(os.path.join(folder, name)))
    except (OSError, ValueError):
        return None


def content(path: str, size: int = 4096) -> bytes:
    """Read the beginning of a file, by system calls alone because every solve does it."""
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
    """(the part of the tree that is mounted, the mount point) by version."""
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
