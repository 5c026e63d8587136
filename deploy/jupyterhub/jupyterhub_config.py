r"""Configure a JupyterHub for a class whose members trust each other: one machine, one account.

    IPU_TEACH_HUB_PASSWORD=… IPU_TEACH_HUB_ADMIN_PASSWORD=… \
        python -m jupyterhub -f deploy/jupyterhub/jupyterhub_config.py

The lessons are part of this project. Each learner gets copies in the folder `work` of their own
home folder. docs/hub.md describes two alternatives, separate accounts (The Littlest JupyterHub) and
many machines (Kubernetes), and has the measurements.
"""

import os
import resource
import sys
from pathlib import Path

from jupyterhub.spawner import SimpleLocalProcessSpawner

HERE = Path(__file__).resolve().parent
# This folder contains the learners' home folders and the hub's database.
FOLDER = Path(os.environ.get("IPU_TEACH_HUB", "hub")).absolute()
HOMES = FOLDER / "homes"
if len(os.fsencode(FOLDER)) > 45:
    sys.exit(
        f"{FOLDER} is too long a name, for sockets lie in it: set IPU_TEACH_HUB to another folder"
    )
FOLDER.mkdir(parents=True, exist_ok=True)
# The hub's database and secrets are as sensitive as a password.
FOLDER.chmod(0o700)


def told(name, least):
    """Return the password in the environment variable `name`.

    Exit with a message if the password is missing or has fewer than `least` characters.
    """
    password = os.environ.get(name, "")
    if not password:
        sys.exit(f"{name} is not set: docs/hub.md says what it is for")
    if len(password) < least:
        sys.exit(f"{name} has {len(password)} characters: give it {least} or more")
    return password


class RoomSpawner(SimpleLocalProcessSpawner):
    """Starts a learner's server as a process of this account, with a memory limit.

    The server runs in the learner's folder.
    """

    def make_preexec_fn(self, name):
        """Return the function that a new process calls before it becomes the learner's server.

        It changes to the learner's folder and sets the limits of the process.
        """
        go_home = super().make_preexec_fn(name)

        def begin():
            go_home()
            # The limit applies to each process separately, so the server and every kernel may use
            # this much. It limits address space, which is larger than the memory in use.
            resource.setrlimit(resource.RLIMIT_AS, (self.mem_limit, self.mem_limit))
            # The hub and its proxy keep a higher priority, so that a busy kernel does not delay
            # them.
            os.nice(5)

        return begin


def sockets(spawner):
    """Return the folder for the sockets of a learner's kernels.

    The full path of a socket may have 107 characters, of which its file name has 49.
    """
    return str(FOLDER / "run" / str(spawner.user.id))


c = get_config()  # noqa: F821  JupyterHub brings it

# Learners share a password and choose a name. The instructor has a separate password of 32
# characters or more.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = told("IPU_TEACH_HUB_PASSWORD", 8)
c.SharedPasswordAuthenticator.admin_password = told("IPU_TEACH_HUB_ADMIN_PASSWORD", 32)
c.Authenticator.admin_users = {"instructor"}
c.Authenticator.allow_all = True
# A learner's name becomes the name of a folder, so only these characters are allowed.
c.Authenticator.username_pattern = r"^[a-z][a-z0-9_-]{0,31}$"
# The log-in page shows this text, because it reports an invalid name as a wrong password.
c.JupyterHub.template_vars = {
    "announcement_login": "Choose a name of small letters a to z, digits, - and _, which begins "
    "with a letter and has 32 signs at most: zoe-mueller, say. Take the same one each time."
}

# By default, only this machine can reach the hub. For other machines, set an address such as
# http://0.0.0.0:8000.
c.JupyterHub.bind_url = os.environ.get("IPU_TEACH_HUB_URL", "http://127.0.0.1:8000")

# On a learner's first visit, `ipu-teach lab` copies the lessons. Then it becomes the learner's
# server.
c.JupyterHub.spawner_class = RoomSpawner
c.SimpleLocalProcessSpawner.home_dir_template = str(HOMES / "{username}")
c.Spawner.cmd = [sys.executable, "-m", "ipu_teach", "lab"]
c.Spawner.default_url = "/lab/tree/00_meet_the_machine.ipynb"
# One thread per kernel: thirty kernels on a few cores gain nothing from more, and every thread
# takes address space.
threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
# With this PATH, a learner's terminal finds `ipu-teach`.
programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
c.Spawner.environment = {
    "IPU_TEACH_WORK": "~/work",
    "JUPYTER_RUNTIME_DIR": sockets,
    "PATH": programs,
    **threads,
}
c.Spawner.mem_limit = "2G"  # RoomSpawner enforces this limit; every lesson needs less.
# This limit is only passed on to the server, because enforcing it needs a spawner with control
# groups.
c.Spawner.cpu_limit = 1
c.Spawner.start_timeout = 300  # If a whole class logs in at once, the last server starts late.
c.Spawner.http_timeout = 300

# This database has the hub's state. While the hub restarts, the learners' servers (with their
# kernels' memory) and the proxy keep running.
c.JupyterHub.db_url = f"sqlite:///{FOLDER / 'hub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(FOLDER / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(FOLDER / "proxy.pid")
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = False

# The first service stops a server that is idle for two hours, which is longer than lunch. The files
# of the server stay. The second service is the class page. It is for admins only: no other role has
# access.
c.JupyterHub.services = [
    {
        "name": "idle",
        "command": [
            sys.executable,
            "-m",
            "jupyterhub_idle_culler",
            "--timeout=7200",
            "--cull-every=300",
        ],
    },
    {
        "name": "class",
        "url": f"http://127.0.0.1:{os.environ.get('IPU_TEACH_HUB_CLASS_PORT', '8898')}",
        "command": [sys.executable, str(HERE / "class_page.py"), str(HOMES)],
        "oauth_no_confirm": True,
    },
]
c.JupyterHub.load_roles = [
    {
        "name": "idle",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle"],
    }
]
