"""The source distribution is the checkout, with the three links in `rpq/` as links; the rest is in pyproject.toml."""

import os

from setuptools import setup
from setuptools.command.sdist import sdist

LINKS = ("rpq/automata", "rpq/spark", "rpq/workloads")


class LinkedSdist(sdist):
    """Packs what is behind a link once, where it is; setuptools would pack it as a second copy in place of the link."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        folders = tuple(f"{link}{os.sep}" for link in map(os.path.normpath, LINKS) if os.path.islink(link))
        super().make_release_tree(base_dir, [file for file in files if not os.path.normpath(file).startswith(folders)])
        for link in LINKS:
            if os.path.islink(link):
                os.symlink(os.readlink(link), os.path.join(base_dir, link))


setup(cmdclass={"sdist": LinkedSdist})
