"""Continues text with a trained model: python scripts/generate.py RUN_DIR --prompt TEXT"""

import argparse
import codecs
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# From a checkout the package need not be installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seqmodels import config
from seqmodels.command_line import Parser
from seqmodels.errors import InputError, exit_status

REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = Parser(prog="generate.py", description="Continue text with a trained model.")
    parser.add_argument("run_dir", metavar="RUN_DIR", help="what train.py wrote")
    parser.add_argument("--step", default="latest", help="a step, latest (default) or best")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="text to continue; empty begins a document")
    source.add_argument("--prompt-file", metavar="FILE", help="a file whose text to continue")
    source.add_argument("--interactive", action="store_true", help="continue each line that is typed")
    parser.add_argument("--max-new-tokens", type=int, default=128, metavar="N")
    parser.add_argument(
        "--temperature", type=float, default=0.8, metavar="X", help="0 takes the most likely token"
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="draw among the K most likely tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="draw among the likeliest that reach P")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    return parser.parse_args(arguments)


def characters(tokenizer, ids: Iterable[int], before: list[int]) -> Iterator[str]:
    """The text of `ids` as they come, whole characters alone; `before` are the ids that they follow.

    A character whose bytes have not all come is held back; what can be no character is one replacement mark.
    All pieces together are the text of all ids at once.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    seen = list(before)
    shown = whole = tokenizer.decode(seen)
    for token in ids:
        seen.append(token)
        whole = tokenizer.decode(seen)
        settled = whole
        # A tokenizer that is not byte-level shows a mark of its own where a character is incomplete.
        while settled.endswith(REPLACEMENT):
            settled = settled.removesuffix(REPLACEMENT)
        if len(settled) > len(shown):
            yield decoder.decode(settled[len(shown) :])
            shown = settled
    yield decoder.decode(whole[len(shown) :], final=True)


def prompts(options: argparse.Namespace) -> Iterable[bytes]:
    """The texts to continue. A file is read at once, and once: it may be a pipe."""
    if options.prompt is not None:
        return [os.fsencode(options.prompt)]
    if options.prompt_file is not None:
        return [_read(Path(options.prompt_file))]
    return _typed()


def _typed() -> Iterator[bytes]:
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    while True:
        try:
            yield input("> ").encode("utf-8", "surrogateescape")
        except EOFError:
            return


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"--prompt-file {path} cannot be read: {error.strerror}.") from None


def main() -> None:
    with exit_status(for_a_reader=True):
        options = parse(sys.argv[1:])
        texts = prompts(options)
        from seqmodels.training.run_directory import RunDirectory

        run = RunDirectory(options.run_dir)
        from seqmodels import registry  # noqa: F401  (JAX and all that a config can name: seconds)
        from seqmodels.evaluation.trained_run import load
        from seqmodels.generation import stream
        from seqmodels.training.compilation import use_cache
        from seqmodels.training.hardware import check_platform

        config.load([run.config_file])
        check_platform()
        use_cache()
        if run.information()["data"]["kind"] != "text":
            raise InputError(f"{run.path} was trained on no text, so there is no text to continue.")
        trained = load(run, options.step)
        tokenizer = trained.data.tokenizer
        for index, text in enumerate(texts):
            before = [tokenizer.end_id, *map(int, tokenizer.encode(text))]
            ids = stream(
                trained.graphdef,
                trained.params,
                before,
                max_new_tokens=options.max_new_tokens,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                seed=options.seed + index,
                end_id=tokenizer.end_id,
                vocab_size=tokenizer.vocab_size,
            )
            print(text.decode("utf-8", "replace"), end="", flush=True)
            for piece in characters(tokenizer, ids, before):
                print(piece, end="", flush=True)
            print()


if __name__ == "__main__":
    main()
