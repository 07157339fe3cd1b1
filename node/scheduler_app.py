"""Put a scheduler together from its parts. The CLI and the tests start schedulers through this. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eth_account.signers.local import LocalAccount

from node.assignment import Assigner, Directory
from node.committee import Committee
from node.intake import Intake
from node.log import NodeLog
from node.remote import Deadlines
from node.respondent import Respondent
from node.rounds import RoundLoop
from node.scheduler import SchedulerService
from node.serving import HANDLER_THREADS, start_server
from node.store import Store
from verillm.chain import ChainClient
from verillm.chain.staking import SCHEDULER_POOL
from verillm.errors import ConfigError
from verillm.manifest import Manifest
from verillm.rpc import verillm_pb2_grpc as rpc


@dataclass(frozen=True)
class SchedulerOptions:
    """``round_interval`` seconds pass between two batches of committed jobs, ``poll`` between two looks for
    demands on chain."""

    port: int
    state: Path
    round_interval: float = 10.0
    deadlines: Deadlines = field(default_factory=Deadlines)
    poll: float = 2.0


class SchedulerNode:
    """A scheduler process: Scheduler service and round loop. Started when constructed."""

    def __init__(
        self,
        key: LocalAccount,
        chain: ChainClient,
        manifests: Mapping[bytes, Manifest],
        options: SchedulerOptions,
    ) -> None:
        log = NodeLog("scheduler")
        self._store = Store(options.state / f"scheduler-{key.address}.sqlite")
        for job in self._store.jobs_in("running"):
            self._store.set_state(job.job_id, "failed", "the scheduler restarted; submit the job again")
        self._directory = Directory(chain, options.deadlines, log)
        _wait_for_key(chain, key.address, log)
        assigner = Assigner(chain, key)
        params = chain.params
        self._committee = Committee(chain.domain, assigner, self._directory, log)
        self._rounds = RoundLoop(
            key, chain, manifests, self._store, self._committee, options.round_interval, log
        )
        intake = Intake(key.address, chain, chain.domain, params, manifests)
        service = SchedulerService(
            key,
            chain.domain,
            manifests,
            self._store,
            self._directory,
            assigner,
            intake,
            params.max_attempts,
            log,
        )
        self._server, self.port = start_server(options.port, HANDLER_THREADS)
        rpc.add_SchedulerServicer_to_server(service, self._server)
        self._respondent = Respondent(key, chain, self._store, options.poll, log)
        self._server.start()
        self._rounds.start()
        self._respondent.start()
        log.info("serving", port=self.port, models=len(manifests), address=key.address)

    def stop(self, grace: float | None = 1.0) -> None:
        """Stop serving; what is on disk lets a later start resume rounds."""
        self._server.stop(grace).wait()
        self._rounds.stop()
        self._respondent.stop()
        self._committee.close()
        self._directory.close()
        self._store.close()

    def wait(self) -> None:
        self._server.wait_for_termination()


def _wait_for_key(chain: ChainClient, address: str, log: NodeLog) -> None:
    """Its VRF key counts from the epoch after registration; no earlier draw can be proven.

    Raises ConfigError if the scheduler has no stake.
    """
    if not chain.stake_of(SCHEDULER_POOL, address):
        raise ConfigError(f"scheduler {address}: has no stake; run `verillm-node register --scheduler` first")
    if not chain.vrf_public_key(address):
        log.info("waiting", reason="the VRF key counts from the next epoch")
        chain.wait_epoch(chain.current_epoch() + 1)
