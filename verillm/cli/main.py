"""``verillm``: run prompts, verify receipts, see and fund escrow, calibrate models, deploy contracts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from verillm.cli import chain_commands, job_commands, verify_command
from verillm.errors import VeriLLMError

OK, REJECTED, BAD_INPUT, UNABLE = 0, 1, 2, 3
INTERRUPTED, INTERNAL = 130, 70
EPILOG = """exit codes: 0 done or accepted, 1 rejected, 2 an error said in one line, 3 the model could not run

example:
  verillm run "Why is the sky blue?" --network .demo/network.json --receipt receipt.json
  verillm verify receipt.json --offline
"""


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="verillm",
        description="Buy LLM inference from strangers' GPUs, and verify what you got.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    job_commands.add(commands)
    verify_command.add(commands)
    chain_commands.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code. Errors are one line on stderr."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except VeriLLMError as error:
        return _fail(str(error), BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit flush is quiet
        return BAD_INPUT
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except Exception as error:  # a bug: still one line, never a traceback
        return _fail(f"internal error: {type(error).__name__}: {error}; please report it", INTERNAL)


def _fail(message: str, code: int) -> int:
    print(f"verillm: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
