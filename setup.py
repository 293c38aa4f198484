"""What pyproject.toml cannot say: presets and experiments travel in a wheel as data under t1cli/_data."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithData(build_py):
    """Copies the two data trees beside the package; an editable install reads them from the checkout instead."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name in ("presets", "experiments"):
            target = Path(self.build_lib) / "t1cli" / "_data" / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(name, target, ignore=shutil.ignore_patterns("__pycache__", "runs"))


setup(cmdclass={"build_py": BuildWithData})
