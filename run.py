"""python3 run.py [JOB] [arguments]: a job of the kit, in an environment that the first use creates.

The environment is .venv next to this file, and nothing is installed outside this folder. Without a
job, run.py opens the first lesson. The jobs, which `ipu-teach` has under the same names, are listed
in ipu_course/jobs.py.
"""
# This file avoids newer syntax, so that an old Python can read it and say that it is too old.

import errno
import glob
import hashlib
import json
import os
import platform
import re
import runpy
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
LONGEST_TEXT = 1 << 16  # A file of more bytes in .venv's folder of programs is not a script.
HEARTBEAT = 20  # A set-up step reports after this many seconds that it is still running.
LAST_LINES = 10  # If a step fails, this many lines of the tool's output are shown.
KILLED = (128 + 9, 128 + 15)  # The exit statuses of a program that was killed, as a shell has them.
UNFINISHED = "unfinished"  # Earlier editions wrote this stamp into a .venv that was not complete.


def python_of(venv):
    folder, program = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(venv, folder, program)


PYTHON = python_of(VENV)


def say(text):
    sys.stderr.write("run.py: " + text + "\n")
    sys.stderr.flush()


def stop(text, status):
    say(text)
    sys.exit(status)


# --- the programs and the system of this machine --------------------------------------------------


def newer_python(minors=range(19, 9, -1)):
    """Return the name of a Python on PATH whose minor version is in `minors`, or ''."""
    for minor in minors:
        name = "python3." + str(minor)
        if hasattr(shutil, "which") and shutil.which(name) and answers([name]):
            return name
    return ""


def answers(command, env=None):
    """Return whether `command --version` works: a name on PATH may stand for a missing program."""
    return silent(command + ["--version"], env) == 0


def silent(command, env=None):
    """Return the exit status of a command without input and output; -1 if it cannot be started."""
    try:
        with open(os.devnull, "r+") as void:
            return subprocess.call(command, stdin=void, stdout=void, stderr=void, env=env, cwd=ROOT)
    except OSError:
        return -1


def system_family():
    """Return the names of this Linux and of those it is derived from: {'ubuntu', 'debian'}."""
    names = set()
    try:
        with open("/etc/os-release") as release:
            for line in release:
                key, _, value = line.strip().partition("=")
                if key in ("ID", "ID_LIKE"):
                    names.update(value.strip("\"'").lower().split())
    except OSError:
        pass
    return names


def one_command():
    """Return a command that installs pip or uv on this system, which the set-up needs."""
    if sys.platform == "darwin" and shutil.which("brew"):
        return "brew install uv"
    if os.name == "nt" or sys.platform == "darwin":
        return '"' + sys.executable + '" -m ensurepip --upgrade'
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
    """A failed step of the set-up.

    `unreached` is advice if the packages could not be reached, and '' otherwise. `said` is the end
    of the tool's output.
    """

    def __init__(self, text, unreached="", said=""):
        Exception.__init__(self, text)
        self.unreached, self.said = unreached, said


# If packages cannot be reached, the output of pip, uv and conda contains one of these patterns:
# (pattern, meaning, advice). The first match counts, because pip ends all such errors with "from
# versions: none".
UNREACHED = (
    (
        "certificate|UnknownIssuer",
        "a certificate is not trusted",
        "Look at the clock of this machine. If it is right, a school or company reads what passes, "
        "and signs it itself: set SSL_CERT_FILE to the file of its certificates (whoever looks "
        "after the network knows which)",
    ),
    (
        "proxyerror|(connect to|in your|resolve) proxy|proxy auth|tunnel (error|connection|failed)|"
        "proxy url had|socks",
        "the proxy does not let this through",
        "Set HTTPS_PROXY to its address, with the name and password that it asks for: "
        "http://NAME:PASSWORD@HOST:PORT",
    ),
    (
        "timed out|timeout was|timeouterror|server error|too many requests|end of file before|"
        "incompleteread",
        "the package index answers too late, or breaks off",
        "Wait a minute (UV_HTTP_TIMEOUT=300 waits longer for each answer), or set HTTPS_PROXY "
        "where a proxy stands between",
    ),
    (
        "dns error|resolve host|name ?resolution|getaddrinfo|unreachable|no route to host|connect "
        "to server|establish a new connection|tcp connect error|connection ?(refused|reset|failed|"
        "error|closed|aborted)|error sending request(?!(.|\n)*(InvalidContentType|handshake eof))",
        "there is no network",
        "Setting up needs one, once: connect, or set HTTPS_PROXY where a proxy stands between",
    ),
    (
        "403 forbidden|401 unauthorized|not found in the package registry|from versions: none|"
        "there (is no version|are no versions) of|error sending request",
        "the package index refuses, or has not what is asked for",
        "Open a browser: a page to log in at may stand between. If there is none, set "
        "PIP_INDEX_URL to the index that whoever looks after the network names",
    ),
)


def unreached(text, kinds=UNREACHED):
    """Return (meaning, advice) if the output of a tool shows that packages are unreachable."""
    for pattern, meaning, advice in kinds:
        if re.search(pattern, text, re.IGNORECASE):
            return meaning, advice
    return None


# Settings of pip and uv with these words decide how packages are reached and where they are cached.
# Other settings change where or how packages are installed, so they are left out.
REACHING = (
    "INDEX|FIND_LINKS|PROXY|CERT|TLS|TRUSTED_HOST|INSECURE_HOST|TIMEOUT|RETRIES|KEYRING|CACHE|"
    "CONFIG_FILE|NO_CONFIG|OFFLINE|CONCURRENT_DOWNLOADS"
)
# (pip's name, uv's names): uv gets pip's setting under the first of its names, unless one is set.
ALIKE = (
    ("PIP_INDEX_URL", ("UV_DEFAULT_INDEX", "UV_INDEX_URL")),
    ("PIP_FIND_LINKS", ("UV_FIND_LINKS",)),
    ("PIP_TRUSTED_HOST", ("UV_INSECURE_HOST",)),
    ("PIP_PROXY", ("ALL_PROXY", "HTTPS_PROXY", "https_proxy")),
    ("PIP_CERT", ("SSL_CERT_FILE",)),
)


def setup_environment():
    """Return the environment variables for the steps of the set-up.

    With them, Python finds uv in .venv-uv. Settings that would install packages in another place
    are left out.
    """
    env = {}
    for name, value in os.environ.items():
        is_left_out = name in ("VIRTUAL_ENV", "CONDA_PREFIX") or name.startswith("PYTHON")
        if name.startswith(("PIP_", "UV_")):
            is_left_out = not re.search(REACHING, name)
        if not is_left_out:
            env[name] = value
    for pip_name, uv_names in ALIKE:
        if env.get(pip_name) and not any(env.get(name) for name in uv_names):
            env[uv_names[0]] = env[pip_name]
    if "UV_FIND_LINKS" not in os.environ and "UV_FIND_LINKS" in env:
        env["UV_FIND_LINKS"] = ",".join(env["UV_FIND_LINKS"].split())
    if env.get("SSL_CERT_FILE"):
        env.setdefault("PIP_CERT", env["SSL_CERT_FILE"])
    # These override the values that pip.conf may have.
    for name in ("PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIRE_HASHES"):
        env[name] = "0"
    env.update(PYTHONPATH=TOOLS, PIP_ROOT_USER_ACTION="ignore", PIP_DISABLE_PIP_VERSION_CHECK="1")
    if not writable(env.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")):
        env.setdefault("UV_CACHE_DIR", CACHE)
        env.setdefault("PIP_CACHE_DIR", CACHE)
    return env


def writable(folder):
    """Return whether files can be written to a folder, which is created if it does not exist."""
    folder = os.path.abspath(os.path.expanduser(folder))
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def do(step_name, command, env):
    """Run a step of the set-up, which is silent unless it takes long or fails.

    `step_name` names it in messages. Raises `SetupFailed` if it fails.
    """
    started = time.time()
    with tempfile.TemporaryFile() as output_file:
        try:
            process = subprocess.Popen(command, env=env, cwd=ROOT, stderr=output_file)
        except OSError as error:
            raise SetupFailed(step_name + " could not be started: " + str(error))  # noqa: B904
        try:
            while True:
                try:
                    status = process.wait(HEARTBEAT)
                    break
                except subprocess.TimeoutExpired:
                    say("still " + step_name + ", " + str(int(time.time() - started)) + " s so far")
        except BaseException:
            process.terminate()
            process.wait()
            raise
        output_file.seek(0)
        text = output_file.read().decode("utf-8", "replace")
    if status == 0:
        sys.stderr.write(text)
        return
    meaning_and_advice = None if "--no-index" in command else unreached(text)
    if meaning_and_advice:
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        output_end = "\n".join(["", "  it said:"] + ["    " + line for line in lines[-LAST_LINES:]])
        raise SetupFailed(meaning_and_advice[0], unreached=meaning_and_advice[1], said=output_end)
    if re.search("no space left|not enough space|quota exceeded", text, re.IGNORECASE):
        raise SetupFailed(
            "the disk is full: about 600 MB are needed. Make room, then run the same command again"
        )
    sys.stderr.write(text)
    output_note = "; what it said stands above. " if text.strip() else "; it said nothing. "
    if status < 0 or status in KILLED:
        raise SetupFailed(
            step_name
            + " was killed from outside, most often because memory ran out"
            + output_note
            + "Run the same command again: it goes on, and fetches nothing twice"
        )
    text = step_name + " failed (status " + str(status) + ")" + output_note
    raise SetupFailed(text + "Run the same command again when that is mended")


def local_uv():
    """Return the commands that may run the uv which an earlier set-up left in .venv-uv.

    If pip installed uv, it is a module. If it is from conda or from a wheel of a pack, it is a
    program.
    """
    program_paths = ["bin/uv", "Library/bin/uv.exe", "Scripts/uv.exe"]
    unpacked = glob.glob(os.path.join(glob.escape(TOOLS), "uv-*.data", "scripts", "uv*"))
    programs = [os.path.join(TOOLS, *name.split("/")) for name in program_paths]
    programs += [path for path in unpacked if os.path.basename(path) in ("uv", "uv.exe")]
    return [[sys.executable, "-m", "uv"]] + [[program] for program in programs]


def find_uv(env):
    """Return the command that runs uv, or None if there is no uv that works."""
    on_path = shutil.which("uv")
    for command in ([[on_path]] if on_path else []) + local_uv():
        if answers(command, env):
            return command
    return None


def uv_installer(env):
    """Return the command that installs uv into .venv-uv without administrator rights.

    If there is none, stop with status 2.
    """
    if answers([sys.executable, "-m", "pip"], env):
        # With --target, pip also works without the module venv, and on a Python that the system
        # manages.
        words = ["-m", "pip", "install", "-q", "--retries", "1", "--upgrade", "--target"]
        return [sys.executable] + words + [TOOLS, "uv"]
    for name in ("mamba", "micromamba", "conda"):
        path = shutil.which(name)
        if path and answers([path], env):
            return [path, "create", "-y", "-q", "-p", TOOLS, "-c", "conda-forge", "uv"]
    text = (
        "one of uv, pip and conda is needed, and none is here. Get one with this command, then run "
        "this again:\n    "
    )
    stop(text + one_command(), 2)


def fetched_uv(installer, env):
    """Install uv into .venv-uv, and return the command that runs it."""
    remove(TOOLS)
    do("fetching uv", installer, env)
    return find_uv(env) or stop(
        "uv was installed into .venv-uv, but does not run on this machine", 1
    )


def remove(path):
    """Delete a folder, or as much of it as possible."""
    if os.path.islink(path):
        os.remove(path)
    shutil.rmtree(path, ignore_errors=True)


# --- a pack: wheels next to run.py, for machines without a network --------------------------------


def this_system():
    """Return the name of this system's folder in wheels/, such as linux-x86_64 or darwin-arm64."""
    return (platform.system() + "-" + platform.machine()).lower()


def carried():
    """Return the folders of wheels for this Python and system, or [] if there are none.

    If the wheels are for another version of Python that is on PATH, stop with that advice.
    """
    try:
        with open(os.path.join(WHEELS, "pack.json")) as listed:
            pack = json.load(listed)
    except (OSError, ValueError):
        return []
    version = python_version()
    folders = [os.path.join(WHEELS, name) for name in ("any", this_system())]
    if version in pack["pythons"] and os.path.isdir(folders[1]):
        return folders
    newer = (
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
    if newer:
        stop(text + ". Run this with " + newer, 2)
    say(text + ", so a network is needed")
    return []


def check_wheels(folders):
    """Compare the wheels with the pack's checksums: a copy from a USB stick may be damaged.

    Raises `SetupFailed` with the names of missing and damaged files.
    """
    prefixes = tuple("wheels/" + os.path.basename(folder) + "/" for folder in folders)
    with open(os.path.join(ROOT, "SHA256SUMS")) as listed:
        digests_and_names = [line.rstrip("\n").split("  ", 1) for line in listed]
    damaged = []
    for digest, name in digests_and_names:
        if name.startswith(prefixes):
            try:
                with open(os.path.join(ROOT, *name.split("/")), "rb") as wheel:
                    is_valid = hashlib.sha256(wheel.read()).hexdigest() == digest
            except OSError:
                is_valid = False
            damaged += [] if is_valid else [name]
    if damaged:
        raise SetupFailed(
            "the pack was not copied whole. Copy it again; missing or damaged: "
            + ", ".join(damaged)
        )


def unpacked_uv(folders, env):
    """Unpack uv from its wheel in one of the folders, and return the command that runs it."""
    remove(TOOLS)
    for folder in folders:
        for path in glob.glob(os.path.join(glob.escape(folder), "uv-*.whl")):
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(TOOLS)
    for command in local_uv()[1:]:
        if os.path.exists(command[0]):
            os.chmod(command[0], 0o755)
    return find_uv(env) or stop("uv, which came with the pack, does not run on this machine", 1)


# --- .venv: built next to the old one, which is deleted when the new one is complete --------------


def python_version():
    return ".".join(str(part) for part in sys.version_info[:2])


def fingerprint():
    """Return the text of the stamp of a finished set-up: all inputs of the set-up.

    They include the path of this folder, because .venv finds the kit by it.
    """
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
    """Return whether .venv is complete and works with the version of Python that runs this."""
    question = (
        "import sys; sys.exit(sys.version_info[:2] != " + repr(tuple(sys.version_info[:2])) + ")"
    )
    return read_stamp() != UNFINISHED and silent([PYTHON, "-c", question], setup_environment()) == 0


def mend(old):
    """Make .venv find this folder after it was moved, renamed or copied from `old`.

    No package is downloaded.
    """
    # This import is not at the top, as very old versions of Python do not have the module.
    from urllib.request import pathname2url

    path_pairs = [(os.fsencode(old), os.fsencode(ROOT))]
    path_pairs.append((pathname2url(old).encode("ascii"), pathname2url(ROOT).encode("ascii")))
    text_files = glob.glob(os.path.join(glob.escape(os.path.dirname(PYTHON)), "*"))
    for packages in ("lib/python*/site-packages", "Lib/site-packages"):
        for name in ("*.pth", "*.dist-info/direct_url.json"):
            text_files += glob.glob(
                os.path.join(glob.escape(VENV), *(packages.split("/") + name.split("/")))
            )
    for path in text_files:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > LONGEST_TEXT:
            continue
        with open(path, "rb") as source:
            old_content = content = source.read()
        for old_path, new_path in path_pairs if b"\0" not in old_content else ():
            content = re.sub(
                b"(?<![\\w.-])" + re.escape(old_path) + b"(?![\\w.-])",
                lambda _, new_path=new_path: new_path,
                content,
            )
        if content != old_content:
            # The content goes to a new file, because the cache of uv may share the old one.
            with open(path + ".new", "wb") as target:
                target.write(content)
            shutil.copymode(path, path + ".new")
            os.replace(path + ".new", path)


def from_wheels(folders):
    """Return the options with which uv uses only the packages in `folders`; [] without folders."""
    links = [word for folder in folders for word in ("--find-links", folder)]
    return ["--offline", "--no-index"] + links if folders else []


def build(want):
    """Build .venv-new, move it to .venv, and write the stamp `want`.

    If .venv works with this version of Python, packages that the user has added are kept.
    """
    env = setup_environment()
    keeps_packages = runs_here()
    if not keeps_packages and os.path.exists(PYTHON) and not read_stamp():
        text = ".venv was made by somebody else, and not for Python " + python_version()
        raise SetupFailed(text + ". Rename or delete it, then run the same command again")
    folders = carried()
    options = []
    if folders:
        text = "setting up .venv, once, from the wheels in this folder: about 110 packages, "
        say(text + "500 MB on disk")
        check_wheels(folders)
        uv = unpacked_uv(folders, env)
        env["UV_CACHE_DIR"] = CACHE  # on this disk, so that uv links files instead of copying them
        options = from_wheels(folders)
    else:
        uv = find_uv(env)
        installer = None if uv else uv_installer(env)
        say("setting up .venv, once: about 110 packages, 150 MB to fetch and 500 MB on disk")
        uv = uv or fetched_uv(installer, env)
    try:
        remove(NEW)
        if keeps_packages:
            shutil.copytree(VENV, NEW, symlinks=True)
        # With --relocatable, .venv-new can be moved. Notebooks need pip for `%pip install`.
        venv_command = uv + ["venv", "-q", "--relocatable", "--allow-existing"] + options
        do("making .venv", venv_command + ["--python", sys.executable, NEW], env)
        install = ["pip", "install", "-q", "--python", python_of(NEW)] + options
        # The tools for tests are installed by the first job that needs them, and are then kept.
        extras = "lab,test" if keeps_packages and has_modules(["pytest"]) else "lab"
        packages = ["pip", "-c", "requirements.lock", "-e", ".[" + extras + "]"]
        do("installing the packages", uv + install + packages, env)
        # Matplotlib lists the fonts once per user, with a message that would be in the output of
        # the first lesson.
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
    """Wait while another run.py sets up this folder, and return an open file that is a lock.

    Until it is closed, any other run.py waits.
    """
    lock = open(os.path.join(ROOT, ".venv-turn"), "w")  # noqa: SIM115
    is_announced = False
    while True:
        try:
            if os.name == "nt":
                import msvcrt

                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return lock  # the disk does not support locks
        if not is_announced:
            say("another run.py is setting up .venv in this folder; waiting for it")
        is_announced = True
        time.sleep(0.5)


def other_python():
    """Return the end of a message with a command that works without a set-up, or ''.

    It is for a .venv of another version of Python.
    """
    version = read_stamp().partition("\n")[0].replace("Python ", "")
    if not os.path.lexists(VENV):
        return ""
    if not re.match(r"3\.\d+$", version) or silent([PYTHON, "-c", ""], setup_environment()) != 0:
        return ". .venv is as it was"
    program = newer_python([int(version.split(".")[1])]) or PYTHON
    return (
        ". .venv is as it was, for Python " + version + ", and works without a network by: "
    ) + subprocess.list2cmdline([program, os.path.join(ROOT, "run.py")] + sys.argv[1:])


def setup():
    """Build .venv, or repair it after a move; do nothing if its stamp is right."""
    want = fingerprint()
    if read_stamp() == want and os.path.exists(PYTHON):
        return
    lock = one_at_a_time()
    try:
        if os.path.isdir(OLD) and not os.path.lexists(VENV):
            os.rename(OLD, VENV)  # a set-up was stopped between the two renames
        stamp_lines = read_stamp().splitlines()
        if len(stamp_lines) == 3 and stamp_lines[1] != ROOT and runs_here():
            mend(stamp_lines[1])
            stamp_lines[1] = ROOT
            write_stamp(VENV, "\n".join(stamp_lines) + "\n")
            say("this folder was moved or copied: .venv knows its new place")
        if read_stamp() == want and os.path.exists(PYTHON):
            return
        build(want)
    except SetupFailed as failure:
        if not failure.unreached:
            stop(str(failure) + (". .venv is as it was" if os.path.lexists(VENV) else ""), 1)
        text = str(failure)
        if not runs_here():
            text += ". " + failure.unreached + ", then run the same command again"
            stop(text + other_python() + failure.said, 1)
        text += ", so .venv stays as it was, though other packages are wanted now; the next run "
        say(text + "tries again. " + failure.unreached)
    finally:
        lock.close()


SIZES = {"test": "21 packages for tests, 65 MB to fetch and 205 MB on disk"}


def has_modules(modules):
    """Return whether .venv has all of these modules."""
    question = "import importlib.util as u; assert all(map(u.find_spec, " + repr(modules) + "))"
    return silent([PYTHON, "-c", question]) == 0


def add_extra(name, modules):
    """Install the extra `name` of pyproject.toml into .venv, if one of its `modules` is missing.

    The packages in the lock are not changed.
    """
    if has_modules(modules):
        return
    lock = one_at_a_time()
    env = setup_environment()
    try:
        folders = carried()
        uv = find_uv(env) or fetched_uv(uv_installer(env), env)
        size_text = ": " + SIZES[name] if name in SIZES else ""
        say("adding what this job needs to .venv, once: the extra `" + name + "`" + size_text)
        install = ["pip", "install", "-q", "--python", PYTHON, "-c", "requirements.lock"]
        install += from_wheels(folders)
        do("installing the packages", uv + install + ["-e", ".[" + name + "]"], env)
    except SetupFailed as failure:
        text = str(failure)
        if failure.unreached:
            text += ". " + failure.unreached + ", then run the same command again" + failure.said
        elif folders:
            text += ". A pack has it if it was made by: python3 run.py pack --tests"
        stop("this job needs the extra `" + name + "` of pyproject.toml: " + text, 1)
    finally:
        lock.close()


def main():
    if sys.version_info < (3, 10):  # noqa: UP036
        newer = newer_python()
        advice = "run this with " + newer if newer else "install a newer one and run this with it"
        version_and_advice = sys.version.split()[0] + "; " + advice
        stop("Python 3.10 or newer is needed, and this is " + version_and_advice, 2)
    arguments = sys.argv[1:] or ["lab"]
    jobs = runpy.run_path(os.path.join(ROOT, "ipu_course", "jobs.py"))
    jobs["answer"]("python3 run.py", arguments)
    try:
        if arguments[0] not in jobs["BARE"]:
            setup()
        if arguments[0] in jobs["EXTRAS"] and arguments[1:] != ["--help"]:
            add_extra(*jobs["EXTRAS"][arguments[0]])
    except KeyboardInterrupt:
        stop("set-up stopped; the next run takes it up again", 130)
    except OSError as error:
        advice = {errno.ENOSPC: "the disk is full, and 600 MB are needed"}
        copy_advice = "copy this folder to where you may write, and close what runs from its .venv"
        advice.update(dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), copy_advice))
        text = str(error) + ". " + advice.get(error.errno, "").capitalize()
        stop("set-up cannot go on: " + text, 1)
    command = [PYTHON, "-m", "ipu_teach"] + arguments
    if arguments[0] in jobs["SCRIPTS"]:  # scripts also run if the kit cannot be imported
        python = sys.executable if arguments[0] in jobs["BARE"] else PYTHON
        command = [python, os.path.join(ROOT, jobs["SCRIPTS"][arguments[0]])] + arguments[1:]
    if os.name != "nt":
        sys.stdout.flush()
        os.execv(command[0], command)  # the job replaces this process, with its status and Ctrl-C
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the job gets Ctrl-C too, and decides
            pass


if __name__ == "__main__":
    sys.exit(main())
