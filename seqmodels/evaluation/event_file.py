"""The evaluation in TensorBoard: an event file of its own under RUN/eval, against the tokens of training."""

import os
import time
from pathlib import Path


def write(
    folder: Path, suffix: str, tokens: int, scalars: dict[str, float], images: dict[str, bytes]
) -> None:
    """Writes one event file, in place of an earlier one of the same suffix.

    folder: RUN/eval. suffix: what tells this evaluation from the others of the run. tokens: the x-axis.
    images: PNG files by tag.
    """
    from tensorboardX import summary
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    for earlier in folder.glob(f"events.out.tfevents.*.{suffix}"):
        earlier.unlink()
    writer = EventsWriter(os.fspath(folder / "events"), f".{suffix}")
    contents = [summary.scalar(tag, value) for tag, value in scalars.items()]
    for tag, picture in images.items():
        width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
        image = Summary.Image(encoded_image_string=picture, width=width, height=height, colorspace=3)
        contents.append(Summary(value=[Summary.Value(tag=tag, image=image)]))
    for content in contents:
        writer.write_event(Event(wall_time=time.time(), step=tokens, summary=content))
    writer.close()
