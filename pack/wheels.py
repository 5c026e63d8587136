"""The wheels of a pack: fetched by pip, kept where they are right, and held against their
checksums."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

import run
from pack.targets import PATCHES, PackError, Target, answers_to

SUMS = "SHA256SUMS"
ANY = "any"  # the folder of wheels that fit every system


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_sums(folder: Path) -> dict[str, str]:
    """Return what SHA256SUMS says: the digest of each file, by its path from there."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """As `sha256sum` writes and reads it; whole or not at all."""
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    (folder / f"{SUMS}.new").write_text(text, encoding="utf-8", newline="\n")
    (folder / f"{SUMS}.new").replace(folder / SUMS)


class Store:
    """The wheels below a pack's folder, by their paths from there, with the digests of those that
    are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        before = {
            name: digest for name, digest in read_sums(folder).items() if name.startswith("wheels/")
        }
        here = {name: path for name in before if (path := folder / name).is_file()}
        bar = tqdm(
            here.items(),
            "checking what is here",
            unit=" wheels",
            leave=False,
            disable=None if here else True,
        )
        self.sums = {name: before[name] for name, path in bar if digest_of(path) == before[name]}

    def serving(self, target: Target, pins: Sequence[str]) -> dict[str, str]:
        """Return the wheel that is here for each pin, where there is one."""
        folders = (f"wheels/{ANY}/", f"wheels/{target.system.folder}/")
        usable = {name: name.rpartition("/")[2] for name in self.sums if name.startswith(folders)}
        fitting = {name: wheel for name, wheel in usable.items() if target.fits(wheel)}
        found = (
            (pin, [name for name, wheel in fitting.items() if answers_to(wheel, pin)])
            for pin in pins
        )
        return {pin: names[0] for pin, names in found if names}

    def fetch(self, target: Target, pins: Sequence[str]) -> list[str]:
        """Return the fetch what is missing for a target; returned are the pins of which there is no
        wheel for it."""
        here = self.serving(target, pins)
        wanted = [pin for pin in pins if pin not in here]
        arriving = self.folder / "wheels" / "arriving"
        shutil.rmtree(arriving, ignore_errors=True)
        nowhere = []
        while wanted:
            # pip takes one version of each at a time
            batch = list({pin.partition("==")[0]: pin for pin in wanted}.values())
            refused = _download(target, batch, arriving)
            nowhere += [refused] if refused else []
            wanted = [pin for pin in wanted if (pin != refused if refused else pin not in batch)]
        for path in sorted(arriving.glob("*.whl")):
            place = ANY if path.name.endswith("-none-any.whl") else target.system.folder
            name = f"wheels/{place}/{path.name}"
            (self.folder / name).parent.mkdir(exist_ok=True)
            digest = digest_of(path)
            path.replace(self.folder / name)
            self.sums[name] = digest
        shutil.rmtree(arriving, ignore_errors=True)
        write_sums(self.folder, self.sums)
        return nowhere

    def keep(self, names: set[str]) -> None:
        """Delete all other wheels: those of an older lock, or for others than this pack is for."""
        self.sums = {name: digest for name, digest in self.sums.items() if name in names}
        for path in list((self.folder / "wheels").rglob("*")):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in names:
                path.unlink()
        for path in (self.folder / "wheels").iterdir():
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _download(target: Target, pins: list[str], folder: Path) -> str | None:
    """Let pip fetch wheels, which holds each against the digest that its index names; returned is a
    pin without a wheel."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--progress-bar=off",
    ]
    command += ["--no-input", "--disable-pip-version-check", "--retries=2", "--implementation=cp"]
    command += [
        f"--python-version={target.python}.{PATCHES[-1]}",
        *(f"--platform={name}" for name in target.system.platforms),
    ]
    with tqdm(total=len(pins), desc=str(target), unit=" wheels", disable=None) as bar:

        def hear(line: str) -> None:
            if line.startswith("Collecting "):
                bar.set_postfix_str(line.split()[1], refresh=False)
                bar.update()

        status, said = _run([*command, "--dest", str(folder), *pins], hear)
    text = "\n".join(said)
    if status == 0:
        return None
    # the last kind is a pin without a wheel, too
    why = run.unreached(text, run.UNREACHED[:-1])
    if why:
        raise PackError(
            f"{why[0]}. What was fetched is kept. {why[1]}, then give the same command again"
        )
    if "No space left on device" in text or "[Errno 28]" in text:
        raise PackError(
            f"the disk of {folder.parents[1]} is full. Make room, or name a folder on another one "
            "with --folder"
        )
    refused = re.search(r"No matching distribution found for (\S+)", text)
    if refused and refused[1] in pins:
        return refused[1]
    raise PackError("pip could not fetch the wheels. It said:\n" + "\n".join(said[-12:]))


def _run(command: list[str], hear: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run a command to its end; its status, and what it said, which `hear` is told line by line."""
    said = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            said.append(line.rstrip())
            hear(line)
        return process.wait(), said
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
