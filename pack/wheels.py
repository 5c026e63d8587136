"""Download the wheels of a pack with pip, and verify them by their checksums."""

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
# The folder of the wheels that every system can install.
ANY = "any"


def digest_of(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def read_sums(folder: Path) -> dict[str, str]:
    """Return the digests in SHA256SUMS, keyed by relative path; {} if there is no such file."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """Write digests to SHA256SUMS in the format of `sha256sum`; replace the file atomically."""
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    (folder / f"{SUMS}.new").write_text(text, encoding="utf-8", newline="\n")
    (folder / f"{SUMS}.new").replace(folder / SUMS)


class Store:
    """The wheels of a pack; `sums` is {relative path: digest} of the valid wheels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed_sums = {
            name: digest for name, digest in read_sums(folder).items() if name.startswith("wheels/")
        }
        present_paths = {name: path for name in listed_sums if (path := folder / name).is_file()}
        progress = tqdm(
            present_paths.items(),
            "checking what is here",
            unit=" wheels",
            leave=False,
            disable=None if present_paths else True,
        )
        self.sums = {
            name: listed_sums[name]
            for name, path in progress
            if digest_of(path) == listed_sums[name]
        }

    def serving(self, target: Target, pins: Sequence[str]) -> dict[str, str]:
        """Return {pin: relative path} for the pins that have a stored wheel."""
        folders = (f"wheels/{ANY}/", f"wheels/{target.system.folder}/")
        wheel_by_path = {
            name: name.rpartition("/")[2] for name in self.sums if name.startswith(folders)
        }
        fitting_wheels = {
            name: wheel for name, wheel in wheel_by_path.items() if target.fits(wheel)
        }
        paths_of_pins = (
            (pin, [name for name, wheel in fitting_wheels.items() if answers_to(wheel, pin)])
            for pin in pins
        )
        return {pin: paths[0] for pin, paths in paths_of_pins if paths}

    def fetch(self, target: Target, pins: Sequence[str]) -> list[str]:
        """Download missing wheels for a target; return the pins for which there is no wheel."""
        stored_wheels = self.serving(target, pins)
        remaining_pins = [pin for pin in pins if pin not in stored_wheels]
        download_folder = self.folder / "wheels" / "arriving"
        shutil.rmtree(download_folder, ignore_errors=True)
        pins_without_wheel = []
        while remaining_pins:
            # In one call, pip accepts only one version of a package.
            batch = list({pin.partition("==")[0]: pin for pin in remaining_pins}.values())
            pin_without_wheel = _download(target, batch, download_folder)
            pins_without_wheel += [pin_without_wheel] if pin_without_wheel else []
            remaining_pins = [
                pin
                for pin in remaining_pins
                if (pin != pin_without_wheel if pin_without_wheel else pin not in batch)
            ]
        for path in sorted(download_folder.glob("*.whl")):
            folder_name = ANY if path.name.endswith("-none-any.whl") else target.system.folder
            name = f"wheels/{folder_name}/{path.name}"
            (self.folder / name).parent.mkdir(exist_ok=True)
            digest = digest_of(path)
            path.replace(self.folder / name)
            self.sums[name] = digest
        shutil.rmtree(download_folder, ignore_errors=True)
        write_sums(self.folder, self.sums)
        return pins_without_wheel

    def keep(self, names: set[str]) -> None:
        """Delete all wheels except `names`: those that belong to older locks or other targets."""
        self.sums = {name: digest for name, digest in self.sums.items() if name in names}
        for path in list((self.folder / "wheels").rglob("*")):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in names:
                path.unlink()
        for path in (self.folder / "wheels").iterdir():
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _download(target: Target, pins: list[str], folder: Path) -> str | None:
    """Let pip download wheels into `folder`; return the first of `pins` without a wheel, or None.

    A pin is a package to install, such as `name==version`. pip verifies the wheels against the
    digests of its index.

    :raises PackError: if pip fails for any other reason.
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
    with tqdm(total=len(pins), desc=str(target), unit=" wheels", disable=None) as progress:

        def show_progress(line: str) -> None:
            if line.startswith("Collecting "):
                progress.set_postfix_str(line.split()[1], refresh=False)
                progress.update()

        status, output_lines = _run([*command, "--dest", str(folder), *pins], show_progress)
    output = "\n".join(output_lines)
    if status == 0:
        return None
    # The last entry of UNREACHED is left out, because it also matches a missing wheel, which is
    # handled below.
    meaning_and_advice = run.unreached(output, run.UNREACHED[:-1])
    if meaning_and_advice:
        raise PackError(
            f"{meaning_and_advice[0]}. The downloaded wheels are kept. {meaning_and_advice[1]}, "
            "then give the same command again"
        )
    if "No space left on device" in output or "[Errno 28]" in output:
        raise PackError(
            f"the disk of {folder.parents[1]} is full. Make room, or name a folder on another disk "
            "with --folder"
        )
    match = re.search(r"No matching distribution found for (\S+)", output)
    if match and match[1] in pins:
        return match[1]
    raise PackError(
        "pip could not download the wheels. Its output:\n" + "\n".join(output_lines[-12:])
    )


def _run(command: list[str], on_line: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run a command to its end, and return `(exit status, lines of output)`.

    `on_line` is called with each line as soon as it is printed.
    """
    output_lines = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            output_lines.append(line.rstrip())
            on_line(line)
        return process.wait(), output_lines
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
