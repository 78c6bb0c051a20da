"""What a run was made with: versions, revision, machine."""

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

PACKAGES = (
    "seqmodels", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "datasets", "tokenizers",
    "gin-config", "tensorboardX", "numpy",
)  # fmt: skip


def provenance() -> dict[str, Any]:
    """Versions of Python and the packages, the git revision, the command, and the devices, as JSON."""
    device = jax.devices()[0]
    return {
        "command": sys.argv,
        "git": _revision(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "machine": platform.platform(),
        "platform": device.platform,
        "device": device.device_kind,
        "devices": jax.device_count(),
        "processes": jax.process_count(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout, or an optional package


def _revision() -> str | None:
    """The commit of the checkout, marked where files differ from it; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
