"""The only module that uses names which wandb and wandb-workspaces do not promise to keep; nothing else here imports them.

Tried with wandb 0.31 and wandb-workspaces 0.4. `test_wandb_border.py` fails with the name that a new release has moved.
"""

import subprocess
from typing import Any

import wandb
from wandb.sdk import wandb_setup

QUICK_FILES_FROM, QUICK_FILES_BELOW = (0, 31), (0, 32)
"""The releases of wandb whose offline files `files` writes itself; any other release writes its own, with its client."""

SERVICE_VARIABLE = "WANDB_SERVICE"
"""The environment variable by which a process finds its running service."""

QUIET = {
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


def has_quick_files(version: str = wandb.__version__) -> bool:
    """Whether the quick writer of offline files is tried with this version of wandb."""
    release = tuple(int(part) for part in version.split(".")[:2])
    return QUICK_FILES_FROM <= release < QUICK_FILES_BELOW


def record_class() -> Any:
    """The protobuf message of which an offline file is a sequence."""
    from wandb.proto import wandb_internal_pb2  # not on import: the client's own files need no protobuf of ours

    return wandb_internal_pb2.Record  # type: ignore[attr-defined]


def quiet_settings() -> dict[str, bool]:
    """Settings that keep the client from measuring the machine; one that a release no longer has is left out."""
    return {name: value for name, value in QUIET.items() if name in wandb.Settings.model_fields}


def service_process() -> "subprocess.Popen[bytes] | None":
    """The service process of this process; None without one, or where a release of wandb keeps it elsewhere. It starts none."""
    singleton = getattr(wandb_setup, "singleton", wandb.setup)
    connection = getattr(singleton(), "_connection", None)
    process = getattr(getattr(connection, "_proc", None), "_process", None)
    return process if isinstance(process, subprocess.Popen) else None


def document_of(view: Any) -> dict[str, Any]:
    """A workspace or a report as the JSON that W&B is sent."""
    spec: dict[str, Any] = view._to_model().spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return spec


def set_id(part: Any, part_id: str) -> None:
    """Give a panel or a set of runs an id, which is random otherwise."""
    part._id = part_id


def set_workspace_name(workspace: Any, name: str) -> None:
    """Name a workspace for the server, where a workspace of the same name is replaced."""
    workspace._internal_name = name


def workspace_id(workspace: Any) -> str:
    """The server's id of a workspace; empty before it was saved."""
    return str(workspace._internal_id)


def set_workspace_id(workspace: Any, server_id: str) -> None:
    """Make the next save of a workspace replace the one of this id; empty: make a new one."""
    workspace._internal_id = server_id
