"""Limits of the machine: memory and cores of nested control groups, of the process, threads that do not start."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fastquad as fq
from fastquad.system import cgroups, memory, threads

GB = 1 << 30
MEMINFO = "MemTotal: 99999999 kB\nMemAvailable: 33554432 kB\n"  # 32 GB


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that lays out the files of a machine, by path, and makes fastquad look there."""

    def lay_out(tree):
        for path, text in ({"proc/meminfo": MEMINFO, "proc/self/statm": "0 0 0 0 0 0 0"} | tree).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)

    monkeypatch.setattr(cgroups, "ROOT", f"{tmp_path}/")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    clear()
    yield lay_out
    clear()


def clear():
    cgroups.groups.cache_clear()
    threads._quota.cache_clear()


VERSION_2 = {
    "proc/self/cgroup": "0::/slice/job/step\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
}
VERSION_1 = {
    "proc/self/cgroup": "9:name=systemd:/\n4:memory:/slice/job\n2:cpu,cpuacct:/slice\n",
    "proc/self/mountinfo": (
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    ),
}


def test_no_groups_at_all(machine):
    machine({})
    assert memory._available() == 32 * GB
    assert threads.cores() == 16


def test_the_tightest_of_nested_groups_counts(machine):
    group = "sys/fs/cgroup/slice"
    machine(
        VERSION_2
        | {
            f"{group}/memory.max": f"{8 * GB}", f"{group}/memory.current": f"{7 * GB}",
            f"{group}/job/memory.max": f"{4 * GB}", f"{group}/job/memory.current": f"{2 * GB}",
            f"{group}/job/step/memory.max": "max\n", f"{group}/job/step/memory.current": "0",
            f"{group}/cpu.max": "max 100000\n", f"{group}/job/cpu.max": "250000 100000\n",
        }
    )  # fmt: skip
    assert memory._available() == 1 * GB
    assert threads.cores() == 3  # two and a half


def test_what_the_system_can_take_back_is_no_loss(machine):
    group = "sys/fs/cgroup/slice"
    machine(
        VERSION_2
        | {
            f"{group}/memory.max": f"{8 * GB}", f"{group}/memory.current": f"{8 * GB}",
            f"{group}/memory.stat": f"anon 5\ninactive_file {3 * GB}\nactive_file 7\n",
        }
    )  # fmt: skip
    assert memory._available() == 3 * GB


def test_groups_of_version_1(machine):
    folder = "sys/fs/cgroup/memory"
    machine(
        VERSION_1
        | {
            f"{folder}/memory.limit_in_bytes": "9223372036854771712", f"{folder}/memory.usage_in_bytes": "5",
            f"{folder}/slice/memory.limit_in_bytes": f"{6 * GB}", f"{folder}/slice/memory.usage_in_bytes": f"{4 * GB}",
            f"{folder}/slice/memory.stat": f"total_inactive_file {GB}\n",
            f"{folder}/slice/job/memory.limit_in_bytes": f"{5 * GB}",
            f"{folder}/slice/job/memory.usage_in_bytes": f"{GB}",
            "sys/fs/cgroup/cpu/slice/cpu.cfs_quota_us": "400000", "sys/fs/cgroup/cpu/slice/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        }
    )  # fmt: skip
    assert memory._available() == 3 * GB
    assert threads.cores() == 4


def test_a_container_that_sees_its_own_group_as_the_root(machine):
    machine(
        {
            "proc/self/cgroup": "0::/../../docker/abc\n",
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/memory.max": f"{2 * GB}", "sys/fs/cgroup/memory.current": f"{GB}",
            "sys/fs/cgroup/cpu.max": "50000 100000",
        }
    )  # fmt: skip
    assert memory._available() == GB
    assert threads.cores() == 1


def test_only_a_part_of_the_tree_is_mounted(machine):
    machine(
        {
            "proc/self/cgroup": "4:memory:/docker/abc/inner\n",
            "proc/self/mountinfo": "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "sys/fs/cgroup/memory/inner/memory.limit_in_bytes": f"{2 * GB}",
            "sys/fs/cgroup/memory/inner/memory.usage_in_bytes": "0",
        }
    )  # fmt: skip
    assert memory._available() == 2 * GB


def test_a_full_group_still_has_a_little(machine):
    machine(VERSION_2 | {"sys/fs/cgroup/slice/memory.max": "1000", "sys/fs/cgroup/slice/memory.current": "999999"})
    assert memory._available() == 64 << 20


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process(limit):
    code = f"""
import resource
import fastquad as fq
from fastquad.system import memory
resource.setrlimit(resource.{limit}, ({3 * GB}, {3 * GB}))
print(memory._available(), memory.budget(None))
"""
    result = run(code)
    available, budget = map(int, result.stdout.split())
    assert GB < available < 3 * GB
    assert budget <= available // 2 + (64 << 20)


@pytest.mark.parametrize("limit", ["addresses", "threads"])
def test_no_threads_to_be_had(tmp_path, limit):
    """The answer is the same, on the threads that there are; and no error speaks of threads."""
    problem = fq.problems.gaussian(m=300, n=150, k=3, rng=0)
    fq.pack(problem.A, tmp_path / "A.fq")
    code = f"""
import threading
import numpy as np, fastquad as fq
A = fq.open({str(tmp_path / "A.fq")!r}, memory="20 MB")
assert type(A).__name__ == "StreamedTensor"
x = np.random.default_rng(0).standard_normal(150)
np.linalg.norm(np.ones((300, 300)) @ np.ones((300, 300)))  # BLAS has its threads
before = threading.Thread.start
def refused(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refused
W = A.products(x, n_threads=4)
assert np.array_equal(W, fq.pack(A, n_threads=4).products(x, n_threads=4))
threading.Thread.start = before
assert np.array_equal(W, fq.pack(A, n_threads=4).products(x, n_threads=4))
print("done")
"""
    if limit == "addresses":
        # Stacks of threads are larger than the addresses that are left.
        code = code.replace("threading.Thread.start = refused", "").replace(
            "W = A.", "import resource; threading.stack_size(1 << 32); "
            "used = int(open('/proc/self/statm').read().split()[0]) * 4096; "
            "resource.setrlimit(resource.RLIMIT_AS, (used + (900 << 20), -1))\nW = A."
        )  # fmt: skip
        code = code.replace("threading.Thread.start = before", "threading.stack_size(1 << 18)")
    assert run(code).stdout == "done\n"


def run(code):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize("n", [np.int64(2), np.uint8(1), 3])
def test_counts_of_threads_of_any_integer_type(n):
    A = np.random.default_rng(0).standard_normal((20, 5, 5))
    x = np.ones(5)
    np.testing.assert_array_equal(fq.as_measurements(A).products(x, n_threads=n), fq.as_measurements(A).products(x))
    fq.set_num_threads(n)
    assert threads.resolve(None) == n
    fq.set_num_threads(None)


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True, np.True_, np.float64(2.0), [2]])
def test_bad_counts_of_threads(n):
    with pytest.raises(ValueError, match="`n_threads` must be a positive integer"):
        threads.resolve(n)


def test_a_pool_that_could_not_grow_keeps_nothing(monkeypatch):
    before = threading.Thread.start

    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_pool", None)
    monkeypatch.setattr(threading.Thread, "start", refused)
    done = []
    threads.run(done.append, [(i,) for i in range(10)], 4)
    assert done == list(range(10))
    assert threads._pool is None
    assert list(threads.ahead(lambda i: i * i, [(i,) for i in range(5)], 2, 2)) == [0, 1, 4, 9, 16]
    monkeypatch.setattr(threading.Thread, "start", before)
    with pytest.raises(ZeroDivisionError):
        list(threads.ahead(lambda i: 1 / i, [(1,), (0,)]))


def test_where_there_is_no_affinity_all_cores_count(machine, monkeypatch):
    """As on macOS and Windows, which have no control groups either."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    clear()
    assert threads.cores() == 6
