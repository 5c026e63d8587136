"""python3 run.py [JOB] [arguments]

  (no job)    open the first lesson in JupyterLab
  lab 03      open lesson 03
  mnist       train lesson 07 headless (--data mnist, --html FILE)
  test        run every test (further arguments go to pytest; --browser-all: every view on every page, and nothing else)
  test --quick   run those of tests/quick.txt: under a minute on two cores, the first thing after a change
  doctor      say what is here and what is missing
  fuzz        run random programs on every way, against a judge (--minutes N, --seed S)
  mutants     damage the lessons' answers in small ways, and see that no check lets one pass (mutants 01.2)
  entered     run the tests, and name the functions that nothing enters (from Python 3.12 on; arguments go to pytest)
  names       say which lesson shows what each exercise needs, on every path through them
  bench       measure how fast the kit is, each workload beside a floor (--only w1a,w2; --browser; --peers)
  size        count the lines of code of each room of the house (size COMMIT: and the change since then)
  OTHER       is handed to `ipu-teach OTHER`

The first use makes .venv beside this file; every job then runs in it. Nothing outside this folder is installed.
"""
# Written so that any Python can read it, an old one too: that one must be able to say that it is too old.

import hashlib
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.realpath(__file__))
VENV = os.path.join(ROOT, ".venv")
TOOLS = os.path.join(ROOT, ".venv-uv")
STAMP = os.path.join(VENV, "ipu_teach.stamp")
PYTHON = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")
UNFINISHED = "unfinished"
HEARTBEAT = 20  # seconds of silence before a set-up step says that it is still at work


def say(text):
    sys.stderr.write("run.py: " + text + "\n")
    sys.stderr.flush()


def stop(text, status):
    say(text)
    sys.exit(status)


# --- what is on this machine ------------------------------------------------------------------------------------------


def newer_python():
    """The name of a Python on PATH that is new enough, or ''."""
    for minor in range(19, 9, -1):
        if hasattr(shutil, "which") and shutil.which("python3." + str(minor)):
            return "python3." + str(minor)
    return ""


def answers(command, env=None):
    """Whether `command --version` works: a name on PATH may be a shim with nothing behind it."""
    return silent(command + ["--version"], env) == 0


def silent(command, env=None):
    """The exit status of a command that is shown nothing and says nothing; -1 where it cannot be started."""
    try:
        with open(os.devnull, "r+") as void:
            return subprocess.call(command, stdin=void, stdout=void, stderr=void, env=env, cwd=ROOT)
    except OSError:
        return -1


def system_family():
    """The words by which this Linux names itself and its ancestors, such as {'ubuntu', 'debian'}."""
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
        return "brew install uv" if shutil.which("brew") else '"' + sys.executable + '" -m ensurepip --upgrade'
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


# --- set-up -----------------------------------------------------------------------------------------------------------


def setup_environment():
    """The environment of the set-up's steps: uv from .venv-uv, and none of the settings that would lead them astray."""
    env = dict(os.environ, PYTHONPATH=TOOLS, PIP_USER="0", PIP_REQUIRE_VIRTUALENV="0", PIP_ROOT_USER_ACTION="ignore")
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    for name in ("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "PYTHONHOME"):
        env.pop(name, None)
    return env


def do(what, command, env):
    """Run one step of the set-up, quiet unless it takes long; leave with status 1 where it fails."""
    started = time.time()
    try:
        process = subprocess.Popen(command, env=env, cwd=ROOT)
    except OSError as error:
        stop(what + " could not be started: " + str(error), 1)
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
    if status != 0:
        text = what + " failed (status " + str(status) + "); what it said stands above.\n"
        text += "run.py: The set-up needs a network and about 700 MB of disk. "
        stop(text + "Run the same command again when both are there.", 1)


def local_uv():
    """uv as an earlier set-up left it in .venv-uv: by pip as a module, by conda as a program."""
    names = ("bin/uv", "Library/bin/uv.exe", "Scripts/uv.exe")
    return [[sys.executable, "-m", "uv"]] + [[os.path.join(TOOLS, *name.split("/"))] for name in names]


def find_uv(env):
    """The command that runs uv, or None."""
    on_path = shutil.which("uv")
    for command in ([[on_path]] if on_path else []) + local_uv():
        if answers(command, env):
            return command
    return None


def uv_installer(env):
    """The command that puts uv into .venv-uv without any right over this machine; status 2 where there is none."""
    if answers([sys.executable, "-m", "pip"], env):
        # --target works without the venv module, and on a Python that its system manages
        return [sys.executable, "-m", "pip", "install", "-qq", "--upgrade", "--target", TOOLS, "uv"]
    for name in ("mamba", "micromamba", "conda"):
        path = shutil.which(name)
        if path and answers([path], env):
            return [path, "create", "-y", "-q", "-p", TOOLS, "-c", "conda-forge", "uv"]
    text = "one of uv, pip and conda is needed, and none is here. Get one with this command, then run this again:\n    "
    stop(text + one_command(), 2)


def fingerprint():
    """What a finished set-up depends on; the folder is part of it, for a moved folder has a broken .venv."""
    digest = hashlib.sha256()
    for name in ("requirements.lock", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as source:
            digest.update(source.read())
    version = ".".join(str(part) for part in sys.version_info[:2])
    return "Python " + version + "\n" + ROOT + "\n" + digest.hexdigest() + "\n"


def read_stamp():
    try:
        with open(STAMP, "rb") as stamp:
            return stamp.read().decode("utf-8", "replace")
    except OSError:
        return ""


def write_stamp(text):
    with open(STAMP, "wb") as stamp:
        stamp.write(text.encode("utf-8"))


def setup():
    """Make .venv, or mend it; nothing to do where the stamp, which is written last, is right."""
    want, have = fingerprint(), read_stamp()
    if have == want and os.path.exists(PYTHON):
        return
    env = setup_environment()
    uv = find_uv(env)
    install_uv = None if uv else uv_installer(env)
    say("setting up .venv, once: about 125 packages, 210 MB to fetch and 600 MB on disk")
    if install_uv:
        shutil.rmtree(TOOLS, ignore_errors=True)
        do("fetching uv", install_uv, env)
        uv = find_uv(env) or stop("uv was installed into .venv-uv, but does not run on this machine", 1)
    # Begun and not finished, moved, or made by another Python: anew. One without a stamp is somebody's, and stays.
    other = have != "" and have.splitlines()[:2] != want.splitlines()[:2]
    if os.path.isdir(VENV) and (other or not os.path.exists(PYTHON)):
        shutil.rmtree(VENV)
    if not os.path.isdir(VENV):
        os.makedirs(VENV)
    write_stamp(UNFINISHED)
    # --seed puts pip into it, for `%pip install` in a notebook.
    do("making .venv", uv + ["venv", "-q", "--seed", "--allow-existing", "--python", sys.executable, VENV], env)
    install = ["pip", "install", "-q", "--python", PYTHON, "-r", "requirements.lock", "-e", "."]
    do("installing the packages", uv + install, env)
    # Matplotlib lists the fonts once per user and says so on stderr, which would stand in the first lesson's output.
    silent([PYTHON, "-c", "import matplotlib.font_manager"])
    write_stamp(want)


# --- jobs -------------------------------------------------------------------------------------------------------------


def quick_tests():
    """The words with which pytest runs the quick tests: the files that tests/quick.txt lists, less what is marked `slow`."""
    with open(os.path.join(ROOT, "tests", "quick.txt")) as listed:
        names = [line.partition("#")[0].strip() for line in listed]
    return ["-q", "-m", "not slow"] + [os.path.join("tests", *name.split("/")) for name in names if name]


def command_of(words):
    """The words after run.py as the command that runs in .venv."""
    job, rest = (words[0], words[1:]) if words else ("lab", [])
    if job == "test":
        # The whole matrix of views and pages is a job of its own; with anything else it is an option of pytest.
        views = [os.path.join("tests", "browser", "test_every_view.py")] if rest == ["--browser-all"] else []
        quick = quick_tests() if "--quick" in rest else []
        return [PYTHON, "-m", "pytest"] + quick + [word for word in rest if word != "--quick"] + views
    scripts = {
        "size": "tests/size.py",
        "fuzz": "tests/fuzz",
        "entered": "tests/entered",
        "mutants": "tests/lessons/mutants.py",
        "bench": "bench",
        "names": "tests/lessons/names.py",
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
        stop("Python 3.10 or newer is needed, and this is " + sys.version.split()[0] + "; " + advice, 2)
    words = sys.argv[1:]
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(__doc__.strip())
        return 0
    try:
        setup()
    except KeyboardInterrupt:
        stop("set-up stopped; the next run takes it up again", 130)
    except OSError as error:
        stop("set-up cannot go on: " + str(error), 1)
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
