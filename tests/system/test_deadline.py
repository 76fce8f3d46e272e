"""Work that is told when to end."""

import math
import time

import pytest

from fastquad.system.deadline import OutOfTime, check, until


def test_work_ends_at_its_deadline():
    check()
    check(1e300)
    with until(time.perf_counter() + 1000):
        check()
        with pytest.raises(OutOfTime):
            check(1e300)
        with until(-math.inf), pytest.raises(OutOfTime):
            check()
        check()
    check(1e300)
