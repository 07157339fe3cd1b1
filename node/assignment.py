"""Who works: the epoch's stakes, who of them answers, and VRF draws of workers and verifiers."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from eth_account.signers.local import LocalAccount

from node.log import NodeLog
from node.remote import Deadlines, RemoteWorker, WorkerFailed
from verillm import draw, vrf
from verillm.chain import ChainClient
from verillm.errors import VeriLLMError

ENDPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Draw:
    """The result of a draw and what proves it: ``proof`` is the VRF proof over the protocol's alpha."""

    operators: tuple[str, ...]
    epoch: int
    proof: bytes


class Directory:
    """Connections to operators at the endpoints that they registered on chain."""

    def __init__(self, chain: ChainClient, deadlines: Deadlines, log: NodeLog) -> None:
        self._chain = chain
        self._deadlines = deadlines
        self._log = log
        self._workers: dict[str, RemoteWorker] = {}
        self._endpoints: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="liveness")

    def worker(self, operator: str) -> RemoteWorker:
        """A connection to ``operator``. Raises WorkerFailed if it registered no endpoint."""
        endpoint = self._endpoint(operator)
        with self._lock:
            known = self._workers.get(operator)
            if known is None or known.endpoint != endpoint:
                known = self._workers[operator] = RemoteWorker(operator, endpoint, self._deadlines)
            return known

    def _endpoint(self, operator: str) -> str:
        """From the chain's events, looked up again after ENDPOINT_SECONDS."""
        known = self._endpoints.get(operator)
        if known is not None and time.monotonic() - known[0] < ENDPOINT_SECONDS:
            return known[1]
        endpoint = self._chain.operator(operator).endpoint
        if not endpoint:
            raise WorkerFailed(f"worker {operator}: has no endpoint on chain")
        self._endpoints[operator] = (time.monotonic(), endpoint)
        return endpoint

    def dead(self, operators: Collection[str], model_id: bytes) -> set[str]:
        """Those of ``operators`` that do not answer Info, as themselves and with the model."""
        alive = self._pool.map(lambda operator: self._answers(operator, model_id), operators)
        return {operator for operator, answers in zip(operators, alive, strict=True) if not answers}

    def _answers(self, operator: str, model_id: bytes) -> bool:
        try:
            info = self.worker(operator).info()
        except VeriLLMError as error:
            self._log.info("not_live", operator=operator, reason=error)
            return False
        return info.address == bytes.fromhex(operator[2:]) and model_id in info.model_ids

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers.values():
            worker.close()


class Assigner:
    """Draws by stake with the scheduler's VRF key. Nobody is left out for being silent: whoever may leave out
    operators could leave out all but its own."""

    def __init__(self, chain: ChainClient, key: LocalAccount) -> None:
        self._chain = chain
        self._secret = bytes(key.key)

    def pool(self, model_id: bytes) -> tuple[int, Sequence[tuple[str, int]]]:
        """(epoch, stakes of the model's pool in it)."""
        epoch = self._chain.current_epoch()
        return epoch, self._chain.stakes(model_id, epoch)

    def worker(self, model_id: bytes, job_id: bytes, attempt: int) -> Draw:
        """The worker of one attempt. Raises NotEnoughOperators if nobody has stake."""
        epoch, stakes = self.pool(model_id)
        seed = draw.epoch_seed(self._chain.chain_id, self._chain.addresses.staking, epoch)
        proof = vrf.prove(self._secret, draw.worker_alpha(seed, job_id, attempt))
        return Draw((draw.draw_worker(vrf.beta(proof), stakes),), epoch, proof)

    def verifiers(
        self, model_id: bytes, job_id: bytes, epoch: int, seed: bytes, count: int, worker: str
    ) -> Draw:
        """Up to ``count`` candidates for a job's verifiers, in draw order.

        ``seed`` is the round's first, ``epoch`` that in which it was committed.
        """
        stakes = self._chain.stakes(model_id, epoch)
        proof = vrf.prove(self._secret, draw.verifier_alpha(seed, job_id))
        return Draw(tuple(draw.draw_verifiers(vrf.beta(proof), count, stakes, worker)), epoch, proof)
