"""The publisher as a child process: `python -m dashboards.publishing RUN --follow`.

It publishes while the sweep runs. When its standard input reaches end of file (the driver closes the pipe, or the kernel does
when the driver dies), when its parent process is gone, or on SIGTERM, it publishes the rest and exits. `process` starts and
ends it so. Without `--follow` it makes one pass. With `--alert` it only sends the alert that is on its standard input, as JSON.

The exit code is 0 when every ended run is published or was sent, 1 otherwise, and 2 for a user's error; `sync` can publish the
rest.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dashboards.publishing.destination import Asked, tags_of
from dashboards.publishing.mode import REQUESTS, Request
from dashboards.publishing.process import silence_client, watch_driver
from dashboards.publishing.publisher import publish
from stsq_core.configs import UserError
from sweeps.cells import WHOLE, read_shard

LOG = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish, and log the result."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    silence_client()
    asked = Asked(options.project, options.entity, None if options.tags is None else tags_of(options.tags))
    if options.alert:
        return _alert(options.run, mode=options.mode, asked=asked)
    os.nice(10)  # training goes first
    stop = watch_driver() if options.follow else lambda: True
    try:
        shard = read_shard(options.shard) if options.shard else WHOLE
        report = publish(options.run, mode=options.mode, asked=asked, shard=shard, stop=stop)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    LOG.info(
        "W&B %s: %d runs published, %d were up to date, %d missing",
        report.mode, report.num_published, report.num_up_to_date, report.num_missing,
    )  # fmt: skip
    if words := report.unconfirmed_words:
        LOG.info("W&B %s", words)
    return 1 if report.num_missing else 0


def _alert(run: Path, *, mode: Request | None, asked: Asked) -> int:
    """Send the alert of standard input; what became of it stands on standard output."""
    from dashboards.publishing.alerts import Alert, send_alert

    try:
        print(send_alert(run, Alert(**json.load(sys.stdin)), mode=mode, asked=asked))
    except (UserError, ConnectionError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dashboards.publishing", description="Publish a run directory to W&B.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--follow", action="store_true", help="publish until standard input ends or the parent process is gone")
    parser.add_argument("--alert", action="store_true", help="send an alert, JSON on standard input, and publish nothing")
    parser.add_argument("--mode", choices=REQUESTS)
    parser.add_argument("--project")
    parser.add_argument("--entity")
    parser.add_argument("--tags", help="separated by commas")
    parser.add_argument("--shard", metavar="I/N", help="publish the I-th of N equal shares of the runs, I from 0")
    return parser


if __name__ == "__main__":
    sys.exit(main())
