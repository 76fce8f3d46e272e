"""Compiles each kernels/NAME.pyx, with the C headers beside it, into fastquad._kernels.NAME.

Everything else is in pyproject.toml.
"""

import os
import re
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

# -fopenmp-simd obeys `#pragma omp simd` without OpenMP's threads; nothing here allows fast-math.
# -ffp-contract=fast lets the compiler use fused multiply-add where the machine has it: it only rounds less.
# -g0 and -s leave out debug information, four fifths of the files.
WINDOWS = sys.platform == "win32"
FLAGS = (
    ["/O2", "/std:c11"]
    if WINDOWS
    else ["-O3", "-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-g0", "-Wno-psabi"]
)
LINK = ["-Wl,-s"] if sys.platform == "linux" else []

# Where every machine must get the same bits nothing may be fused; and compilers may compute both sides of a choice.
SAME_BITS = ["/fp:precise"] if WINDOWS else ["-ffp-contract=off", "-fno-trapping-math"]
# Both sides of the choices in activations are computed, which may not trap.
SPECIAL = {"gaussian": SAME_BITS, "decoder": [] if WINDOWS else ["-fno-trapping-math"]}

kernels = Path("kernels")


def headers(source: Path) -> list[str]:
    """The headers that a source names, and those that they name: one that is edited compiles what it is in, no more."""
    found: set[str] = set()
    waiting = [source]
    while waiting:
        text = waiting.pop().read_text(encoding="utf-8")
        new = {name for name in re.findall(r'"([\w.]+\.(?:h|pxi))"', text) if (kernels / name).exists()} - found
        found |= new
        waiting += [kernels / name for name in new]
    return sorted(str(kernels / name) for name in found)


class Build(build_ext):
    """Compiles; in an editable install only what is older than its sources, for the rest is in the tree already."""

    command_name = "build_ext"  # under which it finds its options, below; else it would look under "Build"

    def build_extension(self, extension: Extension) -> None:
        compiled = Path(self.get_ext_filename(extension.name))
        sources = [*extension.sources, *extension.depends, "setup.py"]
        if self.editable_mode and not self.force and not newer_group(sources, str(compiled)):
            target = Path(self.get_ext_fullpath(extension.name))
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(compiled), str(target))
        else:
            super().build_extension(extension)


# The commands that compile; others, such as the one that asks for the version, need no compiler.
COMPILING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


def check_compiler() -> None:
    """End at once, with a sentence, where there is no C compiler; else say what comes, for it takes minutes."""
    if not COMPILING.intersection(sys.argv) or WINDOWS:
        return
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        sys.exit(
            f"fastquad: there is no C compiler {command[0]!r}, which its kernels need. Install one (Debian and Ubuntu: "
            "apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install; conda: conda install -c "
            "conda-forge c-compiler), or set CC to the one that you have. A wheel needs none."
        )
    count = len(list(kernels.glob("*.pyx")))
    print(f"fastquad: compiling {count} modules, which takes a minute or a few.", file=sys.stderr, flush=True)


def readme() -> str:
    """README.md, whose pictures and links are relative, with the repository's address in front of them."""
    text = Path("README.md").read_text(encoding="utf-8")
    home = re.search(r'^Source = "(.*)"$', Path("pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+://|#)", rf"\1{home}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!\w+://|#)", rf"\1{home}/blob/main/", text)


check_compiler()
setup(
    cmdclass={"build_ext": Build},
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            f"fastquad._kernels.{source.stem}",
            [str(source)],
            include_dirs=[str(kernels)],
            depends=headers(source),
            extra_compile_args=FLAGS + SPECIAL.get(source.stem, []),
            extra_link_args=LINK,
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
