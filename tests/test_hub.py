"""The hub for a class: what its configurations say, and the arithmetic of the load and the
rehearsal, which are commands."""

from __future__ import annotations

import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
HUB = ROOT / "deploy" / "jupyterhub"
sys.path.insert(0, str(ROOT / "tests" / "hub"))
import figures  # noqa: E402
import plan  # noqa: E402
import rehearse  # noqa: E402

from ipu_course.checking.exercise import catalogue  # noqa: E402
from ipu_course.checking.notebooks import find_lesson  # noqa: E402
from ipu_course.classroom import command as class_command  # noqa: E402

LANDING = f"/lab/tree/{find_lesson(None).name}"


# --- what the configurations say ------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="hub") as name:
        yield Path(name)


@pytest.fixture
def set_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Config, dict[str, Any]]:
    """The configuration of one machine, loaded as JupyterHub does; and what else its file
    defines."""
    pytest.importorskip("jupyterhub", reason="JupyterHub is an extra: pip install -e '.[hub]'")
    monkeypatch.setenv("IPU_TEACH_HUB", str(folder))
    monkeypatch.setenv("IPU_TEACH_HUB_PASSWORD", "a" * 8)
    monkeypatch.setenv("IPU_TEACH_HUB_ADMIN_PASSWORD", "b" * 32)
    for name in ("IPU_TEACH_HUB_URL", "IPU_TEACH_HUB_CLASS_PORT"):
        monkeypatch.delenv(name, raising=False)
    config = Config()
    return config, runpy.run_path(str(HUB / "jupyterhub_config.py"), {"get_config": lambda: config})


def test_a_learner_gets_her_own_folder_and_limits(
    set_up: tuple[Config, dict[str, Any]], folder: Path
) -> None:
    c, _ = set_up
    assert (
        c.Spawner.cmd == [sys.executable, "-m", "ipu_teach", "lab"]
        and c.Spawner.default_url == LANDING
    )
    assert c.Spawner.environment["IPU_TEACH_WORK"] == "~/work"
    assert c.SimpleLocalProcessSpawner.home_dir_template.format(username="ada") == str(
        folder / "homes" / "ada"
    )
    assert c.Spawner.mem_limit and c.Spawner.cpu_limit
    assert folder.stat().st_mode & 0o077 == 0


def test_only_this_machine_is_served_and_only_admins_see_the_class(
    set_up: tuple[Config, dict[str, Any]],
) -> None:
    c, _ = set_up
    assert c.JupyterHub.bind_url.startswith("http://127.0.0.1:")
    services = {service["name"]: service for service in c.JupyterHub.services}
    assert "jupyterhub_idle_culler" in services["idle"]["command"]
    assert (
        services["class"]["url"].startswith("http://127.0.0.1:")
        and Path(services["class"]["command"][1]).is_file()
    )
    assert not any(
        "access:services" in scope for role in c.JupyterHub.load_roles for scope in role["scopes"]
    )


def test_a_name_is_a_name_of_a_folder(set_up: tuple[Config, dict[str, Any]]) -> None:
    from jupyterhub.auth import DummyAuthenticator

    names = DummyAuthenticator(config=set_up[0])
    assert (
        names.validate_username("ada-2")
        and not names.validate_username("../ada")
        and not names.validate_username(".ssh")
    )


def test_the_limit_is_on_the_process_that_becomes_the_server(
    set_up: tuple[Config, dict[str, Any]], tmp_path: Path
) -> None:
    import resource
    import subprocess

    spawner = set_up[1]["RoomSpawner"](mem_limit=3 << 30, home_dir=str(tmp_path / "ada"))
    code = "import os, resource; print(resource.getrlimit(resource.RLIMIT_AS), os.getcwd())"
    begin = spawner.make_preexec_fn("ada")
    said = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=begin, capture_output=True, text=True, check=True
    ).stdout
    assert said.split("\n")[0] == f"({3 << 30}, {3 << 30}) {tmp_path / 'ada'}"
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 3 << 30


def test_sockets_have_short_names(
    set_up: tuple[Config, dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = set_up[0].Spawner.environment["JUPYTER_RUNTIME_DIR"](
        SimpleNamespace(user=SimpleNamespace(id=100))
    )
    assert Path(place).parents[1] == folder
    monkeypatch.setenv("IPU_TEACH_HUB", str(folder / ("x" * 40)))
    with pytest.raises(
        SystemExit,
        match="too long a name, for sockets lie in it: set IPU_TEACH_HUB to another folder",
    ):
        runpy.run_path(str(HUB / "jupyterhub_config.py"), {"get_config": Config})


def test_without_passwords_the_hub_does_not_start(
    set_up: tuple[Config, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IPU_TEACH_HUB_ADMIN_PASSWORD")
    with pytest.raises(
        SystemExit, match="IPU_TEACH_HUB_ADMIN_PASSWORD is not set: docs/hub.md says what it is for"
    ):
        runpy.run_path(str(HUB / "jupyterhub_config.py"), {"get_config": Config})


def test_a_short_password_is_one_sentence(
    set_up: tuple[Config, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_TEACH_HUB_PASSWORD", "short")
    with pytest.raises(SystemExit, match="_PASSWORD has 5 characters: give it 8 or more"):
        runpy.run_path(str(HUB / "jupyterhub_config.py"), {"get_config": Config})


def test_the_rule_for_names_stands_where_they_are_chosen(
    set_up: tuple[Config, dict[str, Any]],
) -> None:
    c, _ = set_up
    values = yaml.safe_load((HUB / "kubernetes" / "values.yaml").read_text(encoding="utf-8"))
    there = values["hub"]["config"]
    said = c.JupyterHub.template_vars["announcement_login"]
    assert "small letters a to z, digits, - and _" in said
    assert there["JupyterHub"]["template_vars"]["announcement_login"] == said
    assert there["Authenticator"]["username_pattern"] == c.Authenticator.username_pattern
    assert re.fullmatch(c.Authenticator.username_pattern, "zoe-mueller")
    assert not re.fullmatch(c.Authenticator.username_pattern, "zoë müller")


def test_nobody_becomes_an_admin_by_coming_first() -> None:
    values = yaml.safe_load((HUB / "kubernetes" / "values.yaml").read_text(encoding="utf-8"))
    there = values["hub"]["config"]
    assert there["JupyterHub"]["authenticator_class"] == "shared-password"
    assert "SharedPasswordAuthenticator" not in there  # no password stands in a file
    page = (HUB.parents[1] / "docs" / "hub.md").read_text(encoding="utf-8")
    for word in ("user_password", "admin_password"):
        assert f"--set hub.config.SharedPasswordAuthenticator.{word}=" in page
    assert "Log in as `instructor` yourself before you give out the address" in page


def test_the_class_page_has_a_port_of_its_own(set_up: tuple[Config, dict[str, Any]]) -> None:
    pytest.importorskip("jupyterhub")
    services = {service["name"]: service for service in set_up[0].JupyterHub.services}
    port = services["class"]["url"].rpartition(":")[2]
    assert port != str(class_command.PORT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        env = dict(
            os.environ, JUPYTERHUB_SERVICE_URL=url, JUPYTERHUB_SERVICE_PREFIX="/services/class/"
        )
        done = subprocess.run(services["class"]["command"], env=env, capture_output=True, text=True)
    assert "The class page cannot be served at port" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_littlest_jupyterhub_gets_the_same() -> None:
    c = Config()
    runpy.run_path(str(HUB / "tljh.py"), {"c": c})
    assert c.Spawner.cmd[1:] == ["-m", "ipu_teach", "lab"] and c.Spawner.default_url == LANDING
    (service,) = c.JupyterHub.services.get_value([])
    assert service["name"] == "class" and service["command"][1].endswith(
        "deploy/jupyterhub/class_page.py"
    )
    assert c.Spawner.environment.get_value({})["IPU_TEACH_WORK"] == "~/work"


def test_kubernetes_gets_the_same() -> None:
    values = yaml.safe_load((HUB / "kubernetes" / "values.yaml").read_text(encoding="utf-8"))
    server = values["singleuser"]
    assert server["cmd"] == ["ipu-teach", "lab"] and server["defaultUrl"] == LANDING
    assert all(isinstance(value, str) for value in server["extraEnv"].values())
    assert server["extraEnv"]["IPU_TEACH_WORK"] == "~/work" and values["cull"]["enabled"]
    claim, page = yaml.safe_load_all(
        (HUB / "kubernetes" / "homes.yaml").read_text(encoding="utf-8")
    )
    assert claim["metadata"]["name"] == server["storage"]["static"]["pvcName"] == "class-homes"
    (container,) = page["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{server['image']['name']}:{server['image']['tag']}"
    (mount,) = container["volumeMounts"]
    assert (
        container["command"] == ["ipu-teach", "class", "/class/homes", "--serve"]
        and mount["readOnly"] is True
    )
    assert (
        f"{mount['mountPath']}/{server['storage']['static']['subPath']}"
        == "/class/homes/{username}"
    )


# --- the arithmetic -------------------------------------------------------------------------------


def test_a_quantile_is_one_of_the_values() -> None:
    assert figures.quantile([4, 1, 3, 2], 0.5) == 2 and figures.quantile([4, 1, 3, 2], 0.75) == 3
    assert figures.quantile(list(range(1, 101)), 0.95) == 95 and figures.quantile([7], 0.95) == 7


def test_a_class_beside_one_who_is_alone() -> None:
    cells = figures.compared(
        {0: [1.0, 3.0, 2.0], 1: [0.1]}, [(0, 2.0), (0, 4.0), (1, 0.1), (1, 0.7)]
    )
    assert cells.answers == 4 and cells.seconds == (0.7, 4.0, 4.0)
    assert cells.times == (1.0, pytest.approx(7), pytest.approx(7)) and cells.worst_cell == (
        1,
        pytest.approx(7),
    )


@pytest.mark.parametrize(
    "lesson",
    [lesson for lesson in catalogue() if lesson.number.isdecimal()],
    ids=lambda one: one.number,
)
def test_a_scripted_learner_takes_the_lessons_minutes_and_answers_wrong_once(lesson: Any) -> None:
    steps = list(plan.steps(lesson.number))
    # questions that come again count here
    assert abs(sum(step.minutes for step in steps) - lesson.minutes) <= 7
    for exercise in lesson.exercises:
        mine = [step for step in steps if step.exercise == exercise.name]
        half = len(mine) // 2  # an answer and its check, of which one cell may hold both
        assert 1 <= half <= 2, exercise.name
        assert [step.right for step in mine] == [False] * half + [True] * half, exercise.name
        cells = [step.cell for step in mine]
        assert cells[:half] == cells[half:] == sorted({*cells}), exercise.name
        assert mine[0].code != mine[half].code
        assert all(f'check("{exercise.name}"' in mine[n].code for n in (half - 1, -1))


def test_the_rehearsal_ends_with_what_was_missing() -> None:
    passed = rehearse.conclusion("ada", 0, [], 20.0)
    assert passed == "The rehearsal passed: no kernel was lost, and ada solved every exercise."
    failed = rehearse.conclusion("ada", 2, ["02.3", "07.3"], 60.0)
    assert failed.startswith(
        "The rehearsal failed: kernels were lost: 2; ada has time for every exercise, but did not "
        "solve 02.3, 07.3."
    )
    assert failed.endswith("next: python3 run.py rehearsal --pace 30")


def test_the_rehearsal_keeps_to_the_timetable() -> None:
    page = (ROOT / "docs" / "workshop.md").read_text(encoding="utf-8")
    slots = rehearse.timetable(page)
    assert [slot.lesson for slot in slots if slot.lesson] == list(rehearse.TAKEN)
    assert slots[0].begin == 0 and slots[-1].end == 240
    assert all(one.end == two.begin for one, two in zip(slots, slots[1:], strict=False))


def test_learners_of_different_speed_do_the_exercises_of_the_day() -> None:
    quick, steady, slow = (list(rehearse.taken("01", kind)) for kind in rehearse.KINDS)
    assert {step.exercise for step in quick} == {
        "",
        "01.w1",
        "01.w2",
        "01.1",
        "01.2",
        "01.3",
        "01.4",
    }
    assert all(step.right for step in quick) and len(quick) < len(steady) < len(slow)
    blank = [step for step in rehearse.taken("02", rehearse.KINDS[1]) if step.exercise == "02.2"]
    assert blank and "Your turn" in blank[0].code and sum(step.minutes for step in blank) == 0


@pytest.mark.skipif(os.name == "nt", reason="pipes with names are POSIX's")
def test_a_pipe_in_place_of_progress_keeps_nobody_waiting(tmp_path: Path) -> None:
    from ipu_course.checking.state import NoProgress, read

    os.mkfifo(tmp_path / "progress.json")
    with pytest.raises(NoProgress, match="not an ordinary file"):
        read(tmp_path / "progress.json")
