"""What a run prints before its first step: what it will train, on what, and what that takes."""

import jax

from seqmodels import accounting
from seqmodels.training import hardware, report
from seqmodels.training.compilation import Compiled
from seqmodels.training.job import DataSource, Job
from seqmodels.training.recorder import Units

# A product's two gradients are two products of its own size.
BACKWARD = 2


def units(job: Job, data: DataSource) -> tuple[Units, str]:
    """The units of the run's derived figures, and where the ceiling is from."""
    tokens = job.rows * job.row_length
    forward = tokens * accounting.model_costs(job.model, job.row_length).flops_per_token
    if "scored" in job.batch:  # the head sees only these
        scored = job.rows * job.batch["scored"].shape[-1]
        forward -= (tokens - scored) * 2 * job.model.width * job.vocab_size
    ceiling, source = hardware.product_ceiling(job.model.dtype)
    bytes_per_token = data.bytes_per_token if data.kind == "text" else None
    return Units(forward * (1 + BACKWARD), ceiling, bytes_per_token), source


def rows(
    job: Job,
    data: DataSource,
    compiled: Compiled,
    units: Units,
    ceiling_source: str,
    *,
    step: int,
    steps: int,
) -> report.Rows:
    """The table of names and values, the parameters that decay and that do not included."""
    tokens = job.rows * job.row_length
    least = report.as_time((steps - step) * units.flops_per_update / units.ceiling_flops)
    state = report.as_bytes(accounting.state_bytes(job.model, job.row_length))
    precision = jax.config.jax_default_matmul_precision or "the platform's"
    cache = "from the cache" if compiled.cached else "not in the cache"
    micro_rows = job.rows // job.accumulation
    return [
        ("devices", hardware.describe()),
        ("precision", f"{job.model.dtype}, products at {precision} precision"),
        *_of_data(data),
        ("parameters", report.of_parameters(accounting.parameters_by_part(job.params))),
        *report.of_decay(job.decays, job.params),
        ("state", f"{state} a row of {job.row_length:,} tokens"),
        ("operations", f"{units.flops_per_update / tokens:,.0f} FLOPs a token, forward and backward"),
        ("compilation", f"{compiled.seconds:.1f} s, {cache}"),
        ("memory", report.of_memory(compiled.function)),
        ("update", f"{job.accumulation} x {micro_rows} rows of {job.row_length:,} = {tokens:,} tokens"),
        ("steps", f"{step:,} of {steps:,} done; {steps * tokens:,} tokens in all"),
        ("time", f"{least} at the least: at {units.ceiling_flops:.3g} FLOP/s ({ceiling_source})"),
    ]


def _of_data(data: DataSource) -> report.Rows:
    """One row for what the data is, and one a split for how much of it there is."""
    about = dict(data.describe())
    found: report.Rows = []
    for split in ("train", "validation"):
        sizes = {name: about.pop(f"{split}_{name}", None) for name in ("documents", "tokens", "bytes")}
        if any(sizes.values()):
            found.append((split, ", ".join(f"{size:,} {name}" for name, size in sizes.items())))
    # Lists, the parts of a mixture or the stages of a curriculum with all their settings, are for run.json.
    shown = {name: value for name, value in about.items() if value and not isinstance(value, list)}
    return [("data", ", ".join(f"{name} {value}" for name, value in shown.items())), *found]
