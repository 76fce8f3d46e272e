"""Compiles each kernels/NAME.pyx, with the C headers beside it, into fastquad._kernels.NAME.

Everything else is in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup

# -fopenmp-simd obeys `#pragma omp simd` without OpenMP's threads; nothing here allows fast-math.
# -ffp-contract=fast lets the compiler use fused multiply-add where the machine has it: it only rounds less.
FLAGS = [] if sys.platform == "win32" else ["-O3", "-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno"]

# Where every machine must get the same bits nothing may be fused; and compilers may compute both sides of a choice.
SAME_BITS = [] if sys.platform == "win32" else ["-ffp-contract=off", "-fno-trapping-math"]
# Both sides of the choices in activations are computed, which may not trap.
SPECIAL = {"gaussian": SAME_BITS, "decoder": [] if sys.platform == "win32" else ["-fno-trapping-math"]}

kernels = Path("kernels")

setup(
    ext_modules=[
        Extension(
            f"fastquad._kernels.{source.stem}",
            [str(source)],
            include_dirs=[str(kernels)],
            depends=sorted(str(path) for path in kernels.glob("*.h")),
            extra_compile_args=FLAGS + SPECIAL.get(source.stem, []),
        )
        for source in sorted(kernels.glob("*.pyx"))
    ],
    options={
        "build_ext": {
            "parallel": True,
            "cython_c_in_temp": True,  # keeps kernels/ free of generated C
            "cython_directives": {
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "initializedcheck": False,
                "embedsignature": True,
            },
        }
    },
)
