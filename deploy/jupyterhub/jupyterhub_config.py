"""JupyterHub for a class on one machine, everybody under one account of it: for a room that trusts
itself.

    IPU_TEACH_HUB_PASSWORD=… IPU_TEACH_HUB_ADMIN_PASSWORD=… \\
        python -m jupyterhub -f deploy/jupyterhub/jupyterhub_config.py

The lessons come with the kit; a learner gets copies of her own in `work` in her folder. docs/hub.md
tells the rest: accounts of their own (The Littlest JupyterHub), many machines (Kubernetes), and
what was measured.
"""

import os
import resource
import sys
from pathlib import Path

from jupyterhub.spawner import SimpleLocalProcessSpawner

HERE = Path(__file__).resolve().parent
# homes, and what the hub remembers
FOLDER = Path(os.environ.get("IPU_TEACH_HUB", "hub")).absolute()
HOMES = FOLDER / "homes"
if len(os.fsencode(FOLDER)) > 45:
    sys.exit(
        f"{FOLDER} is too long a name, for sockets lie in it: set IPU_TEACH_HUB to another folder"
    )
FOLDER.mkdir(parents=True, exist_ok=True)
FOLDER.chmod(0o700)  # what the hub remembers is worth a password


def told(name, least):
    """What the variable says, a password. The hub does not start without it, nor with a short
    one."""
    password = os.environ.get(name, "")
    if not password:
        sys.exit(f"{name} is not set: docs/hub.md says what it is for")
    if len(password) < least:
        sys.exit(f"{name} has {len(password)} characters: give it {least} or more")
    return password


class RoomSpawner(SimpleLocalProcessSpawner):
    """A learner's server as a process of this account, with a folder of her own and a limit on its
    memory."""

    def make_preexec_fn(self, name):
        """What the process does before it becomes her server: it goes into her folder, and takes
        its limits."""
        go_home = super().make_preexec_fn(name)

        def begin():
            go_home()
            # Of each process by itself, her server's and every kernel's: address space, which is
            # more than what is used.
            resource.setrlimit(resource.RLIMIT_AS, (self.mem_limit, self.mem_limit))
            os.nice(5)  # the hub and its proxy come first: so whoever is slow is slow alone

        return begin


def sockets(spawner):
    """Where a learner's kernels have their sockets: the whole name of one may have 107 characters,
    49 of them its own."""
    return str(FOLDER / "run" / str(spawner.user.id))


c = get_config()  # noqa: F821  JupyterHub brings it

# Who comes. Learners share a password and choose a name; the instructor has a password of her own,
# of 32 characters or more.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = told("IPU_TEACH_HUB_PASSWORD", 8)
c.SharedPasswordAuthenticator.admin_password = told("IPU_TEACH_HUB_ADMIN_PASSWORD", 32)
c.Authenticator.admin_users = {"instructor"}
c.Authenticator.allow_all = True
c.Authenticator.username_pattern = r"^[a-z][a-z0-9_-]{0,31}$"  # it becomes the name of a folder
# Said where names are chosen: the form itself calls any other name a wrong password.
c.JupyterHub.template_vars = {
    "announcement_login": "Choose a name of small letters a to z, digits, - and _, which begins "
    "with a letter and has 32 signs at most: zoe-mueller, say. Take the same one each time."
}

# Where they come: this machine alone, until you say otherwise, as http://0.0.0.0:8000.
c.JupyterHub.bind_url = os.environ.get("IPU_TEACH_HUB_URL", "http://127.0.0.1:8000")

# What a learner gets: `ipu-teach lab` copies the lessons on the first visit and becomes her server.
c.JupyterHub.spawner_class = RoomSpawner
c.SimpleLocalProcessSpawner.home_dir_template = str(HOMES / "{username}")
c.Spawner.cmd = [sys.executable, "-m", "ipu_teach", "lab"]
c.Spawner.default_url = "/lab/tree/00_meet_the_machine.ipynb"
# One thread for each: thirty kernels on a few cores gain nothing from more, and every thread takes
# address space.
threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
# `ipu-teach` in her terminal
programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
c.Spawner.environment = {
    "IPU_TEACH_WORK": "~/work",
    "JUPYTER_RUNTIME_DIR": sockets,
    "PATH": programs,
    **threads,
}
c.Spawner.mem_limit = "2G"  # RoomSpawner's, above; every lesson runs within it
c.Spawner.cpu_limit = 1  # told to her server; only spawners with control groups can hold her to it
c.Spawner.start_timeout = 300  # when a whole class logs in at once, the last one waits
c.Spawner.http_timeout = 300

# What the hub remembers, and what goes on while it restarts: servers, with what kernels hold in
# memory, and the proxy.
c.JupyterHub.db_url = f"sqlite:///{FOLDER / 'hub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(FOLDER / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(FOLDER / "proxy.pid")
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = False

# What serves beside the learners: who sat idle for two hours, longer than lunch, is stopped; her
# files stay. And the class page, which shows nothing to anybody but an admin: no other role may
# come to it.
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
