"""The native kernels, compiled where there is a C compiler; everything else stands in pyproject.toml.

Without one the installation succeeds all the same, and Ondol runs models with transformers.
"""

import runpy
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
sources = runpy.run_path(str(ROOT / "inference/backends/native/sources.py"))

setup(
    ext_modules=[
        Extension(
            "inference.backends.native._kernels",
            sources=[str(path.relative_to(ROOT)) for path in sources["c_files"]()],
            depends=[str(path.relative_to(ROOT)) for path in sources["files"]()],
            define_macros=[("ONDOL_SOURCE_HASH", f'"{sources["source_hash"]()}"'), ("_GNU_SOURCE", None)],
            extra_compile_args=sources["COMPILE_ARGS"],
            extra_link_args=["-pthread"],
            libraries=["m"],
            optional=True,
        )
    ]
)
