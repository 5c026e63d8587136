"""python3 run.py [JOB] [arguments]

  (no job)    open the first lesson in JupyterLab lab 03      open lesson 03 mnist       train
  lesson 07 headless (--data mnist, --html FILE) test        run every test (further arguments go to
  pytest; --browser-all: every view on every page, and nothing else) test --quick   run those of
  tests/quick.txt: under a minute on two cores, the first thing after a change doctor      say what
  is here and what is missing fuzz        run random programs on every way, against a judge
  (--minutes N, --seed S) mutants     damage the lessons' answers in small ways, and see that no
  check lets one pass (mutants 01.2) entered     run the tests, and name the functions that nothing
  enters (from Python 3.12 on; arguments go to pytest) names       say which lesson shows what each
  exercise needs, on every path through them pack        make a folder or zip that sets up without a
  network: the kit, the lessons, the wheels (--python, --system, --zip) bench       measure how fast
  the kit is, each workload beside a floor (--only w1a,w2; --browser; --peers) hub         a class
  of scripted learners on JupyterHub, on this machine (--learners N, --trouble) rehearsal   half a
  day with three scripted learners on the hub, and pictures of the class page size        count the
  lines of code of each room of the house (size COMMIT: and the change since then) OTHER       is
  handed to `ipu-teach OTHER`

The first use makes .venv beside this file; every job then runs in it. Nothing outside this folder
is installed."""
# Written so that any Python can read it, an old one too: that one must be able to say that it is
# too old.

import errno
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = os.path.dirname(os.path.realpath(__file__))
VENV = os.path.join(ROOT, ".venv")
TOOLS = os.path.join(ROOT, ".venv-uv")
NEW, OLD, CACHE = VENV + "-new", VENV + "-old", VENV + "-cache"
WHEELS = os.path.join(ROOT, "wheels")
STAMP = os.path.join(VENV, "ipu_teach.stamp")
LONGEST_TEXT = 1 << 16  # bytes; what is longer in .venv's folder of programs is no script
HEARTBEAT = 20  # seconds of silence before a set-up step says that it is still at work
UNFINISHED = "unfinished"  # the stamp by which earlier editions marked a .venv that was begun


def python_of(venv):
    return (
        os.path.join(venv, "Scripts", "python.exe")
        if os.name == "nt"
        else os.path.join(venv, "bin", "python")
    )


PYTHON = python_of(VENV)


def say(text):
    sys.stderr.write("run.py: " + text + "\n")
    sys.stderr.flush()


def stop(text, status):
    say(text)
    sys.exit(status)


# --- what is on this machine ----------------------------------------------------------------------


def newer_python(minors=range(19, 9, -1)):
    """The name of a Python on PATH that is new enough, or one of these, or ''."""
    for minor in minors:
        name = "python3." + str(minor)
        if hasattr(shutil, "which") and shutil.which(name) and answers([name]):
            return name
    return ""


def answers(command, env=None):
    """Whether `command --version` works: a name on PATH may be a shim with nothing behind it."""
    return silent(command + ["--version"], env) == 0


def silent(command, env=None):
    """The exit status of a command that is shown nothing and says nothing; -1 where it cannot be
    started."""
    try:
        with open(os.devnull, "r+") as void:
            return subprocess.call(command, stdin=void, stdout=void, stderr=void, env=env, cwd=ROOT)
    except OSError:
        return -1


def system_family():
    """The words by which this Linux names itself and its ancestors, such as {'ubuntu',
    'debian'}."""
    words = set()
    try:
        with open("/etc/os-release") as release:
            for line in release:
                key, _, value = line.strip().partition("=")
                if key in ("ID", "ID_LIKE"):
                    words.update(value.strip("\"'").lower().split())
    except OSError:
        pass
    return words


def one_command():
    """The one command that gives this system what the set-up needs."""
    if os.name == "nt":
        return '"' + sys.executable + '" -m ensurepip --upgrade'
    if sys.platform == "darwin":
        return (
            "brew install uv"
            if shutil.which("brew")
            else '"' + sys.executable + '" -m ensurepip --upgrade'
        )
    family = system_family()
    for names, command in (
        (("debian", "ubuntu"), "sudo apt install python3-pip"),
        (("fedora", "rhel", "centos"), "sudo dnf install python3-pip"),
        (("arch",), "sudo pacman -S uv"),
        (("suse", "opensuse"), "sudo zypper install python3-pip"),
        (("alpine",), "sudo apk add py3-pip"),
        (("gentoo",), "sudo emerge dev-python/pip"),
        (("void",), "sudo xbps-install python3-pip"),
    ):
        if family.intersection(names):
            return command
    return '"' + sys.executable + '" -m ensurepip --user'


# --- set-up ---------------------------------------------------------------------------------------


class SetupFailed(Exception):
    """A step of the set-up did not end well. `offline`: for want of a network."""

    def __init__(self, text, offline=False):
        Exception.__init__(self, text)
        self.offline = offline


# By these words pip, uv and conda say that they reached nobody.
NOBODY = (
    "dns error|resolve host|name ?resolution|getaddrinfo|unreachable|no route to host|failed to "
    "establish a new connection|"
    "tcp connect error|error sending request|connection (refused|reset|failed|error|timed "
    "out)|connectionerror|read timed out"
)


def offline(text):
    """Whether what a tool said means that there is no network."""
    return re.search(NOBODY, text, re.IGNORECASE) is not None


def setup_environment():
    """The environment of the set-up's steps: uv from .venv-uv, and none of the settings that would
    lead them astray."""
    env = dict(
        os.environ,
        PYTHONPATH=TOOLS,
        PIP_USER="0",
        PIP_REQUIRE_VIRTUALENV="0",
        PIP_ROOT_USER_ACTION="ignore",
    )
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    for name in ("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "PYTHONHOME"):
        env.pop(name, None)
    return env


def do(what, command, env):
    """Run one step of the set-up, quiet unless it takes long or fails."""
    started = time.time()
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(command, env=env, cwd=ROOT, stderr=said)
        except OSError as error:
            raise SetupFailed(what + " could not be started: " + str(error))  # noqa: B904
        try:
            while True:
                try:
                    status = process.wait(HEARTBEAT)
                    break
                except subprocess.TimeoutExpired:
                    say("still " + what + ", " + str(int(time.time() - started)) + " s so far")
        except BaseException:
            process.terminate()
            process.wait()
            raise
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    if status != 0 and offline(text):
        raise SetupFailed(what + " needs a network, and none answers", True)
    if status != 0 and re.search("no space left|not enough space", text, re.IGNORECASE):
        raise SetupFailed(
            "the disk is full: about 700 MB are needed. Make room, then run the same command again"
        )
    sys.stderr.write(text)
    if status != 0:
        text = what + " failed (status " + str(status) + "); what it said stands above. "
        raise SetupFailed(text + "Run the same command again when that is mended")


def local_uv():
    """uv as an earlier set-up left it in .venv-uv: by pip as a module, by conda or out of a pack's
    wheel as a program."""
    names = ["bin/uv", "Library/bin/uv.exe", "Scripts/uv.exe"]
    unpacked = glob.glob(os.path.join(glob.escape(TOOLS), "uv-*.data", "scripts", "uv*"))
    programs = [os.path.join(TOOLS, *name.split("/")) for name in names]
    programs += [path for path in unpacked if os.path.basename(path) in ("uv", "uv.exe")]
    return [[sys.executable, "-m", "uv"]] + [[program] for program in programs]


def find_uv(env):
    """The command that runs uv, or None."""
    on_path = shutil.which("uv")
    for command in ([[on_path]] if on_path else []) + local_uv():
        if answers(command, env):
            return command
    return None


def uv_installer(env):
    """The command that puts uv into .venv-uv without any right over this machine; status 2 where
    there is none."""
    if answers([sys.executable, "-m", "pip"], env):
        # --target works without the venv module, and on a Python that its system manages
        return [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--retries",
            "1",
            "--upgrade",
            "--target",
            TOOLS,
            "uv",
        ]
    for name in ("mamba", "micromamba", "conda"):
        path = shutil.which(name)
        if path and answers([path], env):
            return [path, "create", "-y", "-q", "-p", TOOLS, "-c", "conda-forge", "uv"]
    text = (
        "one of uv, pip and conda is needed, and none is here. Get one with this command, then "
        "run this again:\n    "
    )
    stop(text + one_command(), 2)


def remove(path):
    """Delete a folder, or what can be deleted of it."""
    if os.path.islink(path):
        os.remove(path)
    shutil.rmtree(path, ignore_errors=True)


# --- a pack: wheels beside run.py, for machines without a network ---------------------------------


def this_system():
    """The folder of wheels/ that is for this system, such as linux-x86_64, windows-amd64 or
    darwin-arm64."""
    return (platform.system() + "-" + platform.machine()).lower()


def carried():
    """The folders of wheels that serve this Python here; [] where this is no pack, or one for
    others."""
    try:
        with open(os.path.join(WHEELS, "pack.json")) as listed:
            pack = json.load(listed)
    except (OSError, ValueError):
        return []
    version = python_version()
    folders = [os.path.join(WHEELS, name) for name in ("any", this_system())]
    if version in pack["pythons"] and os.path.isdir(folders[1]):
        return folders
    others = (
        newer_python([int(other.split(".")[1]) for other in pack["pythons"]])
        if os.path.isdir(folders[1])
        else ""
    )
    text = (
        "the wheels in this folder are for Python "
        + ", ".join(pack["pythons"])
        + " on "
        + ", ".join(pack["systems"])
    )
    text += "; this is Python " + version + " on " + this_system()
    if others:
        stop(text + ". Run this with " + others, 2)
    say(text + ", so a network is needed")
    return []


def check_wheels(folders):
    """Hold the wheels against the checksums that came with them: a copy from a stick may have gone
    wrong."""
    begins = tuple("wheels/" + os.path.basename(folder) + "/" for folder in folders)
    with open(os.path.join(ROOT, "SHA256SUMS")) as listed:
        sums = [line.rstrip("\n").split("  ", 1) for line in listed]
    bad = []
    for digest, name in sums:
        if name.startswith(begins):
            try:
                with open(os.path.join(ROOT, *name.split("/")), "rb") as wheel:
                    right = hashlib.sha256(wheel.read()).hexdigest() == digest
            except OSError:
                right = False
            bad += [] if right else [name]
    if bad:
        raise SetupFailed(
            "the pack was not copied whole. Copy it again; missing or damaged: " + ", ".join(bad)
        )


def unpacked_uv(folders, env):
    """The command that runs uv, out of the pack's wheel of it."""
    remove(TOOLS)
    for folder in folders:
        for path in glob.glob(os.path.join(glob.escape(folder), "uv-*.whl")):
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(TOOLS)
    for command in local_uv()[1:]:
        if os.path.exists(command[0]):
            os.chmod(command[0], 0o755)
    return find_uv(env) or stop("uv, which came with the pack, does not run on this machine", 1)


# --- .venv: made beside the old one, which goes when the new one stands ---------------------------


def python_version():
    return ".".join(str(part) for part in sys.version_info[:2])


def fingerprint():
    """What a finished set-up depends on; the folder is part of it, for the kit is found in .venv by
    its path."""
    digest = hashlib.sha256()
    for name in ("requirements.lock", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as source:
            digest.update(source.read())
    return "Python " + python_version() + "\n" + ROOT + "\n" + digest.hexdigest() + "\n"


def read_stamp():
    try:
        with open(STAMP, "rb") as stamp:
            return stamp.read().decode("utf-8", "replace")
    except OSError:
        return ""


def write_stamp(venv, text):
    with open(os.path.join(venv, os.path.basename(STAMP)), "wb") as stamp:
        stamp.write(text.encode("utf-8"))


def runs_here():
    """Whether .venv is whole, works, and has the version of Python that runs this."""
    question = (
        "import sys; sys.exit(sys.version_info[:2] != " + repr(tuple(sys.version_info[:2])) + ")"
    )
    return read_stamp() != UNFINISHED and silent([PYTHON, "-c", question]) == 0


def mend(old):
    """Let .venv find the folder that was `old` and has been moved, renamed or copied: no package is
    fetched for that."""
    # not in the Pythons that can only say that they are too old
    from urllib.request import pathname2url

    pairs = [(os.fsencode(old), os.fsencode(ROOT))]
    pairs.append((pathname2url(old).encode("ascii"), pathname2url(ROOT).encode("ascii")))
    texts = glob.glob(os.path.join(glob.escape(os.path.dirname(PYTHON)), "*"))
    for packages in ("lib/python*/site-packages", "Lib/site-packages"):
        for name in ("*.pth", "*.dist-info/direct_url.json"):
            texts += glob.glob(
                os.path.join(glob.escape(VENV), *(packages.split("/") + name.split("/")))
            )
    for path in texts:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > LONGEST_TEXT:
            continue
        with open(path, "rb") as source:
            before = after = source.read()
        for gone, here in pairs if b"\0" not in before else ():
            after = re.sub(
                b"(?<![\\w.-])" + re.escape(gone) + b"(?![\\w.-])", lambda _, here=here: here, after
            )
        if after != before:
            # A new file in its place: uv's cache may share the old one.
            with open(path + ".new", "wb") as target:
                target.write(after)
            shutil.copymode(path, path + ".new")
            os.replace(path + ".new", path)


def build(want):
    """Make .venv-new, and put it where .venv is; with what somebody added to .venv, where its
    Python is still right."""
    env = setup_environment()
    keep = runs_here()
    if not keep and os.path.exists(PYTHON) and not read_stamp():
        text = ".venv was made by somebody else, and not for Python " + python_version()
        raise SetupFailed(text + ". Rename or delete it, then run the same command again")
    folders = carried()
    options = []
    if folders:
        say(
            "setting up .venv, once, from the wheels in this folder: about 125 packages, 600 "
            "MB "
            "on disk"
        )
        check_wheels(folders)
        uv = unpacked_uv(folders, env)
        env["UV_CACHE_DIR"] = CACHE  # on the same disk, so that nothing lies there twice
        options = ["--offline", "--no-index"] + [
            word for folder in folders for word in ("--find-links", folder)
        ]
    else:
        uv = find_uv(env)
        installer = None if uv else uv_installer(env)
        say("setting up .venv, once: about 125 packages, 210 MB to fetch and 600 MB on disk")
        if installer:
            remove(TOOLS)
            do("fetching uv", installer, env)
            uv = find_uv(env) or stop(
                "uv was installed into .venv-uv, but does not run on this machine", 1
            )
    try:
        remove(NEW)
        if keep:
            shutil.copytree(VENV, NEW, symlinks=True)
        # --relocatable lets it be moved into place; pip goes into it for `%pip install` in a
        # notebook.
        make = uv + ["venv", "-q", "--relocatable", "--allow-existing"] + options
        do("making .venv", make + ["--python", sys.executable, NEW], env)
        install = ["pip", "install", "-q", "--python", python_of(NEW)] + options
        do(
            "installing the packages",
            uv + install + ["pip", "-r", "requirements.lock", "-e", "."],
            env,
        )
        # Matplotlib lists the fonts once per user and says so on stderr, which would stand in the
        # first lesson's output.
        silent([python_of(NEW), "-c", "import matplotlib.font_manager"])
        write_stamp(NEW, want)
        remove(OLD)
        if os.path.lexists(VENV):
            os.rename(VENV, OLD)
        os.rename(NEW, VENV)
        remove(OLD)
    finally:
        remove(NEW)
        remove(CACHE)


def one_at_a_time():
    """Wait while another run.py sets this folder up. What is returned keeps the next one waiting
    while it is held."""
    turn = open(os.path.join(ROOT, ".venv-turn"), "w")  # noqa: SIM115
    told = False
    while True:
        try:
            if os.name == "nt":
                import msvcrt

                msvcrt.locking(turn.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return turn
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return turn  # a disk that knows no locks
        if not told:
            say("another run.py is setting up .venv in this folder; waiting for it")
        told = True
        time.sleep(0.5)


def setup():
    """Make .venv, or mend it; nothing to do where its stamp is right."""
    want = fingerprint()
    if read_stamp() == want and os.path.exists(PYTHON):
        return
    turn = one_at_a_time()
    try:
        if os.path.isdir(OLD) and not os.path.lexists(VENV):
            os.rename(OLD, VENV)  # stopped between the two names
        have = read_stamp().splitlines()
        if len(have) == 3 and have[1] != ROOT and runs_here():
            mend(have[1])
            have[1] = ROOT
            write_stamp(VENV, "\n".join(have) + "\n")
            say("this folder was moved or copied: .venv knows its new place")
        if read_stamp() == want and os.path.exists(PYTHON):
            return
        build(want)
    except SetupFailed as failure:
        if not failure.offline:
            stop(str(failure) + (". .venv is as it was" if os.path.lexists(VENV) else ""), 1)
        if not runs_here():
            had = (
                read_stamp().partition("\n")[0].replace("Python", ", for Python")
                if os.path.lexists(VENV)
                else None
            )
            text = (
                "there is no network, and setting up needs one, once: connect, then run the "
                "same command again"
            )
            stop(text + ("" if had is None else "; .venv is as it was" + had), 1)
        say(
            "there is no network, so .venv stays as it was, though other packages are wanted "
            "now; "
            "the next run tries again"
        )
    finally:
        turn.close()


# --- jobs -----------------------------------------------------------------------------------------


def quick_tests():
    """The words with which pytest runs the quick tests: the files that tests/quick.txt lists, less
    what is marked `slow`."""
    with open(os.path.join(ROOT, "tests", "quick.txt")) as listed:
        names = [line.partition("#")[0].strip() for line in listed]
    return ["-q", "-m", "not slow"] + [
        os.path.join("tests", *name.split("/")) for name in names if name
    ]


def command_of(words):
    """The words after run.py as the command that runs in .venv."""
    job, rest = (words[0], words[1:]) if words else ("lab", [])
    if job == "test":
        # The whole matrix of views and pages is a job of its own; with anything else it is an
        # option of pytest.
        views = (
            [os.path.join("tests", "browser", "test_every_view.py")]
            if rest == ["--browser-all"]
            else []
        )
        quick = quick_tests() if "--quick" in rest else []
        return (
            [PYTHON, "-m", "pytest"] + quick + [word for word in rest if word != "--quick"] + views
        )
    scripts = {
        "size": "tests/size.py",
        "fuzz": "tests/fuzz",
        "entered": "tests/entered",
        "mutants": "tests/lessons/mutants.py",
        "bench": "bench",
        "pack": "pack",
        "names": "tests/lessons/names.py",
        "hub": "tests/hub",
        "rehearsal": "tests/hub/rehearse.py",
    }
    if job in scripts:
        return [PYTHON, os.path.join(ROOT, *scripts[job].split("/"))] + rest
    if job == "mnist":
        return [PYTHON, "-m", "ipu_teach", "run", "mnist"] + rest
    return [PYTHON, "-m", "ipu_teach", job] + rest


def main():
    if sys.version_info < (3, 10):  # noqa: UP036
        newer = newer_python()
        advice = "run this with " + newer if newer else "install a newer one and run this with it"
        stop(
            "Python 3.10 or newer is needed, and this is " + sys.version.split()[0] + "; " + advice,
            2,
        )
    words = sys.argv[1:]
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(__doc__.strip())
        return 0
    try:
        setup()
    except KeyboardInterrupt:
        stop("set-up stopped; the next run takes it up again", 130)
    except OSError as error:
        advice = {errno.ENOSPC: "the disk is full, and 700 MB are needed"}
        for number in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice[number] = (
                "copy this folder to where you may write, and close what runs from its .venv"
            )
        stop(
            "set-up cannot go on: " + str(error) + ". " + advice.get(error.errno, "").capitalize(),
            1,
        )
    if words[:1] == ["test"]:
        os.chdir(ROOT)
    command = command_of(words)
    if os.name != "nt":
        sys.stdout.flush()
        os.execv(command[0], command)  # this process becomes the job: its status, its Ctrl-C
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            pass  # the job has had it too, and decides


if __name__ == "__main__":
    sys.exit(main())
