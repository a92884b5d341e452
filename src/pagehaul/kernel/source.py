# SPDX-License-Identifier: GPL-2.0-only
"""A pristine, read-only kernel source in the cache."""

import hashlib
import json
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import debian, tools
from pagehaul.kernel import bases
from pagehaul.kernel.bases import Base
from pagehaul.locks import lock
from pagehaul.paths import cache_dir, log_dir, remove_tree
from pagehaul.ui import run_logged, step

# What a directory of the user's may contain besides the source.
_NOT_SOURCE = (".git",)


def ensure(base: Base | None = None, source: str | None = None) -> Path:
    """Return a pristine, read-only source tree in the cache, made when it is not there.

    base is the kernel that it is to be, None for the default one. source is a directory, a tarball,
    or a kernel.org version such as 7.3.4; None is Debian's linux-source package, installed or
    fetched when missing, or kernel.org's on other systems. Raises PagehaulError when it cannot
    be had, is not a clean kernel of the base, or was changed in the cache.
    """
    base = base or bases.get()
    if source is None:
        origin = _default_origin(base)
    elif re.fullmatch(r"\d+\.\d+(\.\d+)?", source):
        origin = _download(source)
    else:
        origin = Path(source).expanduser().absolute()
    if origin.is_dir():
        key = _directory_key(origin)
    elif origin.is_file():
        stat = origin.stat()
        key = f"{origin}:{stat.st_size}:{stat.st_mtime_ns}"
    else:
        raise PagehaulError(f"no kernel source at {origin}: give a directory or a tarball")
    stem = re.sub(r"\.(tar(\.\w+)?|tgz)$", "", origin.name)
    short = hashlib.sha256(key.encode()).hexdigest()[:8]
    target = _source_dir() / f"{stem}-{short}"
    with lock("source"):
        if target.exists():
            _verify(target)
        else:
            _unpack(base, origin, target)
    return target


def stamp(tree: Path) -> str:
    """Return what identifies the content of a tree that `ensure` returned."""
    return _stamp_file(tree).read_text(encoding="utf-8")


def version(tree: Path) -> str:
    """Version that a kernel's Makefile states, such as 7.3.4; PagehaulError without one."""
    try:
        text = (tree / "Makefile").read_text(encoding="utf-8")
    except OSError:
        text = ""
    values = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) *= *(\d+)$", text, re.M))
    if len(values) != 3 or not (tree / "Kbuild").exists():
        raise PagehaulError(f"{tree} is not a kernel source")
    return f"{values['VERSION']}.{values['PATCHLEVEL']}.{values['SUBLEVEL']}"


def _source_dir() -> Path:
    path = cache_dir() / "source"
    path.mkdir(exist_ok=True)
    return path


def _default_origin(base: Base) -> Path:
    if base.tarball.exists():
        return base.tarball
    # Ubuntu has apt as well, but not these packages.
    if debian.release() is None or shutil.which("apt-get") is None:
        return _download(base.kernel_org)
    if base.backport_of is not None:
        files = debian.unpack_backport(base.package, base.backport_of)
        return files / base.tarball.relative_to("/")
    tools.require(base.package)
    return base.tarball


def _download(wanted: str) -> Path:
    url = bases.kernel_org(wanted)
    target = _source_dir() / url.rsplit("/", 1)[1]
    if target.exists():
        return target
    part = target.with_suffix(f".part{os.getpid()}")
    try:
        with step(f"downloading {url}") as current, part.open("wb") as out:
            with urllib.request.urlopen(url, timeout=60) as response:
                while data := response.read(1 << 20):
                    out.write(data)
                    current.detail(f"{out.tell() >> 20} MiB")
            expected = response.headers.get("Content-Length")
            if expected is not None and int(expected) != out.tell():
                raise OSError("the transfer was cut short")
        part.replace(target)
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        raise PagehaulError(
            f"cannot download {url} ({reason}); give a directory or a tarball with --source"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return target


def _directory_key(origin: Path) -> str:
    """Identify a directory's content by what changes when somebody edits it."""
    version(origin)
    if (origin / ".config").exists() or (origin / "vmlinux").exists():
        raise PagehaulError(f"{origin} has been built in; run `make mrproper` there first")
    digest = hashlib.sha256(str(origin).encode())
    for directory, names, files in os.walk(origin):
        names[:] = sorted(name for name in names if name not in _NOT_SOURCE)
        for name in sorted(files):
            info = os.lstat(os.path.join(directory, name))
            digest.update(f"{directory}/{name}:{info.st_size}:{info.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _unpack(base: Base, origin: Path, target: Path) -> None:
    """Put `origin` at `target`, all of it or nothing."""
    work = Path(tempfile.mkdtemp(prefix=".unpack-", dir=target.parent))
    tree = work / "tree"
    tree.mkdir()
    log = log_dir() / "source.log"
    try:
        if origin.is_dir():
            tools.require("rsync")
            excludes = [f"--exclude=/{name}" for name in _NOT_SOURCE]
            command = ["rsync", "--archive", *excludes, f"{origin}/", f"{tree}/"]
            run_logged(command, log, title=f"copying {origin.name}")
        else:
            tools.require("xz-utils")
            command = ["tar", "--extract", "--no-same-owner", "--strip-components=1"]
            command += [f"--directory={tree}", f"--file={origin}"]
            run_logged(command, log, title=f"unpacking {origin.name}")
        found = version(tree)
        if not found.startswith(f"{base.name}."):
            raise PagehaulError(
                f"{origin} is Linux {found}, not {base.name}; --base says for which the patches are"
            )
        run_logged(["chmod", "--recursive", "a-w", tree], log, title="making it read-only")
        manifest = {"version": found, "origin": origin.name, **_manifest(tree)}
        _stamp_file(target).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        tree.rename(target)
    finally:
        remove_tree(work)


def _stamp_file(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.json")


def _manifest(tree: Path) -> dict[str, object]:
    """Sizes and times of all files, by which a change is noticed.

    The files are read-only, but root writes to them all the same.
    """
    digest = hashlib.sha256()
    count = 0
    for directory, names, files in os.walk(tree):
        names.sort()
        relative = os.path.relpath(directory, tree)
        for name in sorted(files):
            info = os.lstat(os.path.join(directory, name))
            digest.update(f"{relative}/{name}:{info.st_size}:{info.st_mtime_ns}\n".encode())
            count += 1
    return {"files": count, "digest": digest.hexdigest()}


def _verify(tree: Path) -> None:
    try:
        known = json.loads(stamp(tree))
    except (OSError, ValueError):
        known = {}
    if {key: known.get(key) for key in ("files", "digest")} != _manifest(tree):
        raise PagehaulError(f"{tree} is no longer pristine: remove it, it will be made again")
