"""Put a worker together from its parts. The CLI and the tests start workers through this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eth_account.signers.local import LocalAccount

from node.behaviour import Behaviour
from node.challenges import Challenger
from node.held import HeldJobs
from node.judging import Judge, ServedModel
from node.juror import Juror, VoteStore
from node.log import NodeLog
from node.runner import ModelRunner
from node.serving import HANDLER_THREADS, start_server
from node.worker import WorkerService
from verillm.chain import ChainClient
from verillm.manifest import Manifest
from verillm.rpc import verillm_pb2_grpc as rpc

KEPT_JOBS = 512
"""Jobs whose rows a worker keeps in memory."""
MAX_BATCH = 8


@dataclass(frozen=True)
class WorkerOptions:
    """``poll`` is the pause in seconds between two looks at the chain for juries and demands."""

    port: int
    state: Path
    scheduler: str
    max_batch: int = MAX_BATCH
    kept_jobs: int = KEPT_JOBS
    poll: float = 1.0


class WorkerNode:
    """A worker process: Worker service, model threads, challenger and juror. Started when constructed."""

    def __init__(
        self,
        key: LocalAccount,
        chain: ChainClient,
        models: Sequence[tuple[Manifest, Behaviour]],
        options: WorkerOptions,
    ) -> None:
        log = NodeLog(f"worker.{key.address[2:8]}")
        self._models = {
            manifest.model_id: ServedModel(manifest, ModelRunner(behaviour, options.max_batch, log))
            for manifest, behaviour in models
        }
        held = HeldJobs(options.kept_jobs)
        self._challenger = Challenger(chain, self._models, log)
        judge = Judge(key, chain.domain, chain, chain.params, self._models, held, self._challenger, log)
        self._server, self.port = start_server(options.port, HANDLER_THREADS)
        service = WorkerService(key, chain.domain, self._models, held, judge, log)
        rpc.add_WorkerServicer_to_server(service, self._server)
        self._server.start()
        votes = VoteStore(options.state / f"votes-{key.address}.sqlite")
        self._juror = Juror(key, chain, self._models, held, options.scheduler, votes, options.poll, log)
        self._juror.start()
        log.info("serving", port=self.port, models=len(self._models), address=key.address)

    def stop(self, grace: float | None = 1.0) -> None:
        """Stop serving; running tasks are cut after ``grace`` seconds (None: at once)."""
        self._server.stop(grace).wait()
        self._juror.stop()
        self._challenger.close()
        for model in self._models.values():
            model.runner.close()

    def wait(self) -> None:
        self._server.wait_for_termination()
