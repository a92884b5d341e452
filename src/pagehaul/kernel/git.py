# SPDX-License-Identifier: GPL-2.0-only
"""Repositories of git: commands there, commits that depend on nobody's settings."""

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import tools

# Commits are the same whenever they are made.
_DATE = "2026-11-25T12:00:00Z"
# What a clone may be set to, and commits by the tool must not depend on.
_PLAIN = ("commit.gpgSign=false", f"core.hooksPath={os.devnull}")


@dataclass(frozen=True)
class Repository:
    """A repository, with the identity ("Name <mail>") that commits by the tool get."""

    where: Path
    who: str

    def git(self, *words: str | Path, text: str | None = None) -> str:
        """Return what a git command says there; PagehaulError where it fails."""
        name, _, mail = self.who.rstrip(">").rpartition(" <")
        names = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", name), ("EMAIL", mail), ("DATE", _DATE))
        }
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        settings = [word for setting in _PLAIN for word in ("-c", setting)]
        done = subprocess.run(
            ["git", "-C", self.where, *settings, *words],
            input=text,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            env={**os.environ, **names, **quiet},
        )
        if done.returncode:
            raise PagehaulError(f"git {words[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def has(self, revision: str) -> bool:
        """Tell whether there is a commit of that name."""
        try:
            self.git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        except PagehaulError:
            return False
        return True

    def content(self, commit: str, name: str) -> bytes | None:
        """Return a file as it is after a commit; None where it is not there."""
        done = subprocess.run(
            ["git", "-C", self.where, "show", f"{commit}:{name}"], capture_output=True, check=False
        )
        return done.stdout if done.returncode == 0 else None

    def commit(self, text: str, names: Iterable[str]) -> str:
        """Commit files as they are now, and return the commit."""
        if paths := list(names):
            self.git("add", "--all", "--force", "--", *paths)
        self.git("commit", "--quiet", "--allow-empty", "--file=-", text=text)
        return self.git("rev-parse", "HEAD").strip()


def identity(where: Path) -> str:
    """Return the user's name and mail as git knows them in a directory.

    Raises PagehaulError where it does not.
    """
    tools.require("git")
    found = []
    for key, example in (("user.name", "Your Name"), ("user.email", "you@example.org")):
        done = subprocess.run(
            ["git", "-C", where, "config", key], capture_output=True, text=True, check=False
        )
        if not done.stdout.strip():
            raise PagehaulError(
                f"git does not know who signs the patches: git config --global {key} '{example}'"
            )
        found.append(done.stdout.strip())
    return "{} <{}>".format(*found)
