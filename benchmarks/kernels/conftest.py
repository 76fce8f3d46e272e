"""Options and fixtures of the benchmarks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fastquad benchmarks")
    group.addoption("--threads", type=int, default=2, help="threads for kernels and peers alike (default 2)")
    group.addoption("--patience", type=float, default=30, help="seconds a benchmark waits for a quiet machine (30)")
    group.addoption("--max-rounds", type=int, default=100, help="rounds of a benchmark, where it would take more")
    group.addoption("--smoke", action="store_true", help="tiny sizes: checks in seconds that every benchmark runs")


def pytest_configure(config: pytest.Config) -> None:
    # Before anything imports NumPy: BLAS, PyTorch, JAX and Numba count the cores that the process may use.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: config.getoption("--threads")])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            # What a peer deprecates is not our error.
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict) -> None:
    import machine

    machine_info["fastquad"] = machine.describe() | {"threads": config.getoption("--threads")}


@pytest.fixture(scope="session")
def threads(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--threads")


@pytest.fixture(scope="session")
def smoke(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--smoke")


@pytest.fixture
def race(benchmark, smoke: bool, request: pytest.FixtureRequest):
    from race import Race

    return Race(benchmark, smoke, request.config.getoption("--patience"), request.config.getoption("--max-rounds"))
