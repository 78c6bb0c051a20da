"""Evaluates a trained model: python eval.py RUN_DIR [--step N|latest|best] [--suite NAME,...]"""

import argparse
import sys

from seqmodels import config
from seqmodels.command_line import Parser
from seqmodels.errors import exit_status


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; `--gin.` flags are taken out before."""
    parser = Parser(
        prog="eval.py",
        description="Evaluate a checkpoint: perplexity, recall, memory. Into RUN_DIR/eval and TensorBoard.",
        takes_settings=True,
        epilog="--gin.NAME=VALUE sets what the evaluation uses, for example --gin.evaluate.row_length=512.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", help="what train.py wrote")
    parser.add_argument("--step", default="latest", help="a step, latest (default) or best")
    parser.add_argument(
        "--suite",
        metavar="NAME,...",
        help="of perplexity, recall, text, memory, interventions, strided, stateful; by default those of the "
        "first five that fit the data",
    )
    return parser.parse_args(arguments)


def main() -> None:
    with exit_status():
        bindings, rest = config.split_arguments(sys.argv[1:])
        options = parse(rest)
        from seqmodels.training.run_directory import RunDirectory

        run = RunDirectory(options.run_dir)
        from seqmodels import registry  # noqa: F401  (JAX and all that a config can name: seconds)
        from seqmodels.evaluation.evaluate import evaluate
        from seqmodels.training.compilation import use_cache
        from seqmodels.training.hardware import check_platform

        config.load([run.config_file], bindings, overridable="evaluate")
        check_platform()
        use_cache()
        chosen = {} if options.suite is None else {"suites": options.suite.split(",")}
        evaluate(run, options.step, **chosen)


if __name__ == "__main__":
    main()
