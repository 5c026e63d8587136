"""The wheels of a pack: downloaded by pip, kept while they are valid, and verified by checksum."""

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
    """Return the content of SHA256SUMS: the digest of each file, by its relative path."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """Write digests in the format of `sha256sum`, in one atomic step."""
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    (folder / f"{SUMS}.new").write_text(text, encoding="utf-8", newline="\n")
    (folder / f"{SUMS}.new").replace(folder / SUMS)


class Store:
    """The wheels below a pack's folder, by relative path, with the digests of the complete ones."""

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
        """Return the stored wheel for each pin that has one."""
        folders = (f"wheels/{ANY}/", f"wheels/{target.system.folder}/")
        usable = {name: name.rpartition("/")[2] for name in self.sums if name.startswith(folders)}
        fitting = {name: wheel for name, wheel in usable.items() if target.fits(wheel)}
        found = (
            (pin, [name for name, wheel in fitting.items() if answers_to(wheel, pin)])
            for pin in pins
        )
        return {pin: names[0] for pin, names in found if names}

    def fetch(self, target: Target, pins: Sequence[str]) -> list[str]:
        """Download the missing wheels for a target, and return the pins without a wheel."""
        here = self.serving(target, pins)
        wanted = [pin for pin in pins if pin not in here]
        arriving = self.folder / "wheels" / "arriving"
        shutil.rmtree(arriving, ignore_errors=True)
        nowhere = []
        while wanted:
            # pip accepts only one version of each at a time
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
        """Delete all other wheels, of an older lock or for other targets."""
        self.sums = {name: digest for name, digest in self.sums.items() if name in names}
        for path in list((self.folder / "wheels").rglob("*")):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in names:
                path.unlink()
        for path in (self.folder / "wheels").iterdir():
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _download(target: Target, pins: list[str], folder: Path) -> str | None:
    """Let pip download wheels, and return a pin without a wheel, or None.

    pip verifies them against the digests of its index.
    """
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
    # a pin may have no wheel at all
    why = run.unreached(text, run.UNREACHED[:-1])
    if why:
        raise PackError(
            f"{why[0]}. The downloaded wheels are kept. {why[1]}, then give the same command again"
        )
    if "No space left on device" in text or "[Errno 28]" in text:
        raise PackError(
            f"the disk of {folder.parents[1]} is full. Make room, or name a folder on another one "
            "with --folder"
        )
    refused = re.search(r"No matching distribution found for (\S+)", text)
    if refused and refused[1] in pins:
        return refused[1]
    raise PackError("pip could not download the wheels. Its output:\n" + "\n".join(said[-12:]))


def _run(command: list[str], hear: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run a command to its end, and return its status and its output.

    `hear` also gets the output, line by line.
    """
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
