"""The files that clusters are started from, against what reads them: Ray's schema and checks, KubeRay's fields, a shell.

Schema-checked only: nothing here starts a machine at AWS, an ssh session, a pod or an image. `test_slurm.py` runs the Slurm
script.
"""

import copy
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from cluster.commands.groups import manifest_files
from cluster.jobs.submission import STOP_SETTINGS

ROOT = Path(__file__).parents[3]
FILES = manifest_files()
RAY_UP = ("aws.yaml", "onprem.yaml")
KUBERAY = Path(__file__).with_name("kuberay_rayjob_1.7.0.json")


def text_of(name: str) -> str:
    return FILES[name].read_text()


def pinned(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.parametrize("name", RAY_UP)
def test_ray_up_takes_the_file(name: str) -> None:
    config = yaml.safe_load(text_of(name))
    schema = json.loads((Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(config)
    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    assert prepared["max_workers"] == config["max_workers"]


@pytest.mark.parametrize("name", RAY_UP)
def test_a_head_asks_for_a_token_and_stops_jobs_in_order(name: str) -> None:
    config = yaml.safe_load(text_of(name))
    head, workers = (" ".join(config[f"{who}_start_ray_commands"]) for who in ("head", "worker"))
    for variable in (f"{key}={value}" for key, value in STOP_SETTINGS.items()):
        assert variable in head
    assert "RAY_AUTH_MODE=token" in head
    assert "RAY_AUTH_MODE=token" in workers
    assert "--dashboard-host=127.0.0.1" in head
    assert any(path.endswith(".ray/auth_token") for path in config["file_mounts"])


@pytest.mark.parametrize("name", RAY_UP)
def test_the_commands_of_a_cluster_are_shell(name: str) -> None:
    config = yaml.safe_load(text_of(name))
    commands = [command for key, value in config.items() if key.endswith("_commands") for command in value]
    assert len(commands) > 5
    for command in commands:
        subprocess.run(["bash", "-n", "-c", command], check=True)


def test_gpu_workers_of_the_cloud_come_and_go() -> None:
    config = yaml.safe_load(text_of("aws.yaml"))
    gpu = config["available_node_types"]["gpu"]
    assert (gpu["min_workers"], gpu["resources"]["GPU"]) == (0, 1)
    assert gpu["max_workers"] == config["max_workers"]
    assert config["docker"]["image"].startswith(f"rayproject/ray:{pinned('ray')}-py3")


def ray_job() -> dict[str, Any]:
    return dict(yaml.safe_load(text_of("rayjob.yaml")))


def test_the_ray_job_has_fields_that_kuberay_knows() -> None:
    jsonschema.validate(ray_job(), json.loads(KUBERAY.read_text()))


def _misspell(job: dict[str, Any]) -> None:
    job["spec"]["submitterConfig"]["backOffLimit"] = 0


def _unknown_mode(job: dict[str, Any]) -> None:
    job["spec"]["rayClusterSpec"]["authOptions"]["mode"] = "password"


def _volume_by_word(job: dict[str, Any]) -> None:
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["volumes"] = "shared"


@pytest.mark.parametrize("spoil", [_misspell, _unknown_mode, _volume_by_word])
def test_the_fields_of_kuberay_are_checked_at_depth(spoil: Callable[[dict[str, Any]], None]) -> None:
    job = ray_job()
    spoil(job)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, json.loads(KUBERAY.read_text()))


def test_the_ray_job_runs_once_and_is_taken_down() -> None:
    spec = ray_job()["spec"]
    cluster = spec["rayClusterSpec"]
    assert (spec["backoffLimit"], spec["submitterConfig"]["backoffLimit"]) == (0, 0)
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["activeDeadlineSeconds"] > 0
    assert cluster["authOptions"]["mode"] == "token"
    assert cluster["rayVersion"] == pinned("ray")
    assert STOP_SETTINGS.items() <= yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"].items()
    head, worker = cluster["headGroupSpec"]["template"]["spec"], cluster["workerGroupSpecs"][0]["template"]["spec"]
    assert head["volumes"] == worker["volumes"]
    assert head["containers"][0]["volumeMounts"] == worker["containers"][0]["volumeMounts"]
    out = spec["entrypoint"].split("--out ")[1]
    assert out.startswith(head["containers"][0]["volumeMounts"][0]["mountPath"])


def test_the_key_of_wandb_comes_from_a_secret_only() -> None:
    environment = ray_job()["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    key = next(variable for variable in environment if variable["name"] == "WANDB_API_KEY")
    assert "value" not in key
    assert key["valueFrom"]["secretKeyRef"]["optional"] is True
    assert "WANDB_API_KEY" not in yaml.safe_load(ray_job()["spec"]["runtimeEnvYAML"])["env_vars"]


def test_the_slurm_script_is_shell() -> None:
    script = FILES["slurm.sh"]
    subprocess.run(["bash", "-n", script], check=True)
    if linter := shutil.which("shellcheck"):
        subprocess.run([linter, script], check=True)
    options = re.findall(r"^#SBATCH --(\S+)", script.read_text(), re.MULTILINE)
    assert {"nodes=2", "ntasks-per-node=1", "signal=INT@120"} <= set(options)


def test_the_image_is_made_of_what_the_project_needs() -> None:
    lines = re.sub(r"\\\n\s*", " ", text_of("Containerfile")).splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert {word for word, _ in instructions} <= {"FROM", "COPY", "RUN", "ENV", "WORKDIR"}
    printed = dict(reversed(instructions))
    image, tag = printed["FROM"].split(":")
    version, python = tag.rsplit("-py", 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = tuple(int(part) for part in project["requires-python"].removeprefix(">=").split("."))
    assert (image, version) == ("rayproject/ray", pinned("ray"))
    assert (int(python[0]), int(python[1:])) >= needed
    folder = printed["COPY"].split()[-1]
    assert printed["RUN"] == f"pip install --no-cache-dir -c {folder}/constraints.txt {folder}"
    assert {f"{key}={value}" for key, value in STOP_SETTINGS.items()} <= set(printed["ENV"].split())


def test_manifests_are_listed_and_printed(here: Callable[..., Any]) -> None:
    listed = here("manifest")
    assert (listed.code, len(listed.out.splitlines())) == (0, len(FILES))
    assert all(line.split()[0] in FILES and len(line.split()) > 2 for line in listed.out.splitlines())
    assert here("manifest", "slurm.sh").out == here("manifest", "slurm").out == text_of("slurm.sh")
    unknown = here("manifest", "azure.yaml")
    assert unknown.code == 2
    assert "aws.yaml" in unknown.err


def test_manifests_are_in_the_package() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert data["cluster"] == ["manifests/*"]


@pytest.mark.parametrize("name", ["aws", "onprem", "kubernetes", "slurm", "container"])
def test_each_way_to_a_cluster_has_its_page(name: str) -> None:
    page = (ROOT / f"docs/clusters/{name}.md").read_text()
    for heading in ("## Start", "## Submit", "## Watch", "## Stop", "## What it costs"):
        assert heading in page, (name, heading)
