"""Configure The Littlest JupyterHub so that learners' servers open the lessons.

Copy this file to /opt/tljh/config/jupyterhub_config.d/ipu_teach.py, then run

    sudo tljh-config reload hub

`KIT` is a checkout of this project, which is installed into the environment of all users. The
Littlest JupyterHub manages accounts, limits and idle culling: docs/hub.md has the commands.
"""

KIT = "/opt/ipu_teach"
PYTHON = "/opt/tljh/user/bin/python3"

# `ipu-teach lab` copies the lessons into ~/work on the first visit and becomes the learner's
# server.
c.Spawner.cmd = [PYTHON, "-m", "ipu_teach", "lab"]  # noqa: F821  the hub brings c
c.Spawner.default_url = "/lab/tree/00_meet_the_machine.ipynb"  # noqa: F821
own = {"IPU_TEACH_WORK": "~/work", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
c.Spawner.environment.update(own)  # noqa: F821

# The class page at /services/class is for admins only. It runs as root, because learners' homes are
# closed to each other.
page = {"name": "class", "url": "http://127.0.0.1:8898", "oauth_no_confirm": True}
page["command"] = [PYTHON, f"{KIT}/deploy/jupyterhub/class_page.py", "/home"]
c.JupyterHub.services.append(page)  # noqa: F821
