"""The main job end to end, on a real model and a real chain: `make demo`.

Starts anvil, deploys, prepares the model, runs one scheduler and five worker processes, and shows an honest
job paid and every cheat slashed. Exits 0 only if every expectation held. It leaves in .demo/ the logs of the
processes, the honest job's receipt, the manifest, the address book and the client's network file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from verillm.calibrate import manifest_of
from verillm.chain import AddressBook, ChainClient
from verillm.chain.deploy import deploy
from verillm.chain.devnet import account, start_anvil
from verillm.constants import Dtype, Verdict
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError, VeriLLMError
from verillm.manifest import Manifest
from verillm.model_store import resolve
from verillm.sdk import Client, Generation, Receipt, Reset, verify_receipt
from verillm.types import SamplingParams
from verillm.vrf import public_key

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".demo"
WORKERS = 5
TOKEN = 10**18
STAKE = 5_000 * TOKEN
RICH = 20_000 * TOKEN
"""Stake of worker 1: it will cheat in every role, so it must still be drawn after a slash as a verifier."""
ESCROW = 1_000 * TOKEN
BLOCK_SECONDS = 0.25
ROUND_SECONDS = 1.0
T = TypeVar("T")
PROMPTS = (
    "Explain in two sentences why the sky is blue.",
    "Write a short story about a lighthouse keeper.",
    "List three uses of a Merkle tree.",
    "What does a validator do in a proof-of-stake network?",
    "Describe the taste of a ripe mango.",
    "How does a refrigerator work?",
)


class Failed(VeriLLMError):
    """An expectation of the demo did not hold."""


def say(text: str) -> None:
    print(text, flush=True)


def tokens(wei: int) -> str:
    return f"{wei / TOKEN:,.4f}".rstrip("0").rstrip(".")


def wait_for(what: str, poll: Callable[[], T | None], seconds: float) -> T:
    """The first value of ``poll`` that is not None. Raises Failed after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = poll()
        if value is not None:
            return value
        time.sleep(0.3)
    raise Failed(f"{what}: did not happen within {seconds:.0f} s; see the logs in {STATE}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NodeProcess:
    """One `verillm-node` process with a key of its own; its output goes to .demo/NAME.log."""

    def __init__(self, name: str, key: str, arguments: list[str]) -> None:
        self._name = name
        self._log = (STATE / f"{name}.log").open("ab")
        env = {**os.environ, "VERILLM_PRIVATE_KEY": key}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "node.cli", *arguments],
            cwd=ROOT,
            env=env,
            stdout=self._log,
            stderr=self._log,
        )

    def check(self) -> None:
        """Raises Failed if the process has ended."""
        if self.process.poll() is not None:
            raise Failed(f"{self._name}: ended with {self.process.returncode}; see {self._log.name}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()


@dataclass
class Network:
    """The demo's chain, deployment and processes."""

    rpc: str
    book: AddressBook
    folder: Path
    manifest: Manifest
    chain: ChainClient
    stack: ExitStack
    ports: list[int] = field(default_factory=lambda: [free_port() for _ in range(WORKERS + 1)])
    workers: dict[int, NodeProcess] = field(default_factory=dict)

    @property
    def scheduler(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def address(self, worker: int) -> str:
        """Operator address of worker 1 to 5."""
        return account(2 + worker).address

    def as_account(self, index: int) -> ChainClient:
        return ChainClient(self.rpc, self.book, account(index))

    def common(self) -> list[str]:
        return ["--rpc", self.rpc, "--address-book", str(STATE / "addresses.json")]

    def start_scheduler(self) -> None:
        arguments = ["scheduler", *self.common(), "--port", str(self.ports[0]), "--state", str(STATE)]
        arguments += ["--manifest", str(STATE / "manifest.json"), "--round-interval", str(ROUND_SECONDS)]
        node = NodeProcess("scheduler", account(1).key.hex(), arguments)
        self.stack.callback(node.stop)
        self._wait_port(node, self.ports[0])

    def start_worker(self, worker: int, cheat: str | None = None) -> None:
        """Start worker 1 to 5 (again), honest or with a cheat; returns at once."""
        if worker in self.workers:
            self.workers[worker].stop()
        arguments = ["worker", *self.common(), "--port", str(self.ports[worker]), "--threads", "1"]
        arguments += ["--model", str(self.folder), "--manifest", str(STATE / "manifest.json")]
        arguments += ["--scheduler", self.scheduler, "--state", str(STATE)]
        if cheat:
            arguments += ["--cheat", cheat]
        self.workers[worker] = NodeProcess(f"worker-{worker}", account(2 + worker).key.hex(), arguments)

    def wait_workers(self) -> None:
        for worker, node in self.workers.items():
            self._wait_port(node, self.ports[worker])

    def stop_workers(self) -> None:
        for node in self.workers.values():
            node.stop()

    def slashed(self, operator: str) -> int:
        """Token wei that the operator has lost so far."""
        events = self.chain.events("staking", "Slashed", operator=operator)
        return sum(event.args["amount"] for event in events)

    def _wait_port(self, node: NodeProcess, port: int) -> None:
        def answers() -> bool | None:
            node.check()
            with socket.socket() as probe:
                probe.settimeout(1)
                return True if probe.connect_ex(("127.0.0.1", port)) == 0 else None

        wait_for(f"port {port}", answers, 90)


def warm_up(engine: Engine) -> None:
    """Compile what decoding and checking need once; five workers that do it at the same time take minutes."""
    state = engine.prefill([1, 2, 3])
    sampling = SamplingParams(temperature_ppm=700_000)
    for _ in engine.decode_batch([state], [GenerationSpec(sampling, 2)]):
        pass
    engine.margins(state.store.rows(len(engine.boundaries) - 1)[2:3], sampling, 2, [5])


def start_network(stack: ExitStack, model: str) -> Network:
    """Chain, contracts, model, scheduler and workers, all staked and serving."""
    devnet = stack.enter_context(start_anvil(block_time=BLOCK_SECONDS))
    book = deploy(devnet.rpc_url, account(0), "devnet")
    book.write(STATE / "addresses.json")
    say(f"chain      anvil, chain id {book.chain_id}, a block every {BLOCK_SECONDS} s; contracts deployed")
    folder = resolve(model, progress=lambda line: say(f"model      {line}"))
    manifest = manifest_of(folder, Dtype.BF16, lambda line: say(f"           {line}"))
    manifest.save(STATE / "manifest.json")
    warm_up(Engine.from_manifest(folder, manifest, threads=1))
    say(f"model      {manifest.name}, bf16, id 0x{manifest.model_id.hex()[:16]}…, from {folder}")

    net = Network(
        devnet.rpc_url, book, folder, manifest, ChainClient(devnet.rpc_url, book, account(0)), stack
    )
    net.chain.register_model(manifest.spec)
    for index in range(1, WORKERS + 3):
        net.chain.mint_test_token(account(index).address, 2 * RICH)
    net.as_account(1).register_scheduler(STAKE, net.scheduler, public_key(bytes(account(1).key)))
    net.stack.callback(net.stop_workers)
    for worker in range(1, WORKERS + 1):
        endpoint = f"127.0.0.1:{net.ports[worker]}"
        stake = RICH if worker == 1 else STAKE
        net.as_account(2 + worker).register_operator(manifest.model_id, stake, endpoint)
        net.start_worker(worker)
    net.start_scheduler()
    net.wait_workers()
    net.chain.wait_epoch(net.chain.current_epoch() + 1)
    network = {
        "rpc": net.rpc,
        "scheduler": net.scheduler,
        "address_book": "addresses.json",
        "models": [str(folder)],
        "dev_account": 2,
    }
    (STATE / "network.json").write_text(json.dumps(network, indent=1) + "\n")
    say(f"network    1 scheduler, {WORKERS} workers, at stake {tokens(RICH)} and 4 x {tokens(STAKE)} tokens")
    return net


@dataclass
class Demo:
    """The scenarios. Each returns the line of the summary table, or raises Failed."""

    net: Network
    client: Client
    asked: int = 0

    def submit(self, max_tokens: int, show: bool = False) -> tuple[Generation, int, float]:
        """One streamed job: the generation, how often it moved to another worker, and its seconds."""
        prompt = PROMPTS[self.asked % len(PROMPTS)]
        temperature = (0.0, 0.7, 1.0)[self.asked % 3]
        self.asked += 1
        started = time.perf_counter()
        stream = self.client.generate(
            prompt, max_tokens=max_tokens, temperature=temperature, seed=self.asked, stream=True
        )
        moves = 0
        for event in stream:
            if isinstance(event, Reset):
                moves += 1
            elif show:
                print(event.text, end="", flush=True)
        if show:
            print(flush=True)
        return stream.generation, moves, time.perf_counter() - started

    def until_drawn(self, worker: int, max_tokens: int) -> tuple[Generation, int]:
        """Submit until the VRF draws ``worker``; also how many jobs that took."""
        for count in range(1, 41):
            generation, _, _ = self.submit(max_tokens)
            if generation.worker == self.net.address(worker):
                return generation, count
        raise Failed(f"worker {worker} was not drawn in 40 jobs")

    def finished(self, generation: Generation, seconds: float = 90) -> Receipt:
        """The receipt once the job is final (paid, refunded or void)."""
        wait_for("final state", lambda: True if generation.state() == "final" else None, seconds)
        return generation.receipt(wait=False)

    def honest(self) -> str:
        say("\nhonest job: the output as it streams")
        before = {w: self.net.chain.balance(self.net.address(w)) for w in range(1, WORKERS + 1)}
        escrow = self.net.chain.escrow(self.client.account.address, account(1).address)
        generation, _, seconds = self.submit(96, show=True)
        receipt = self.finished(generation)
        receipt.save(STATE / "receipt.json")
        record = receipt.settlement.record
        if record.outcome is not Verdict.ACCEPT:
            raise Failed(f"honest job: settled as {record.outcome.name}")
        engine = Engine.from_manifest(self.net.folder, self.net.manifest, threads=1)
        engine.prefill(receipt.prompt)  # the first prefill of a process compiles kernels
        started = time.perf_counter()
        report = verify_receipt(receipt, engine, self.net.manifest)
        check_seconds = time.perf_counter() - started
        if report.verdict is not Verdict.ACCEPT or not report.ok:
            raise Failed(f"honest job: our own check of the receipt says {report.verdict!r}")
        paid = escrow - self.net.chain.escrow(self.client.account.address, account(1).address)
        worker = next(w for w in before if self.net.address(w) == record.worker)
        earned = self.net.chain.balance(record.worker) - before[worker]
        if paid != record.client_pays or earned != record.worker_fee:
            raise Failed(f"honest job: client paid {paid}, worker earned {earned}, record says {record}")
        gas = self._round_gas(receipt.round.round_id)
        say(
            f"  {len(receipt.prompt)} + {len(receipt.output)} tokens by worker {worker}, job root "
            f"0x{receipt.worker.commitment.job_root.hex()[:12]}…; generated in {seconds:.1f} s, receipt "
            f"verified in {check_seconds:.2f} s ({100 * check_seconds / seconds:.1f} %)"
        )
        say(f"  client paid {tokens(paid)}, worker earned {tokens(earned)}; gas of the round: {gas:,}")
        return f"accepted, settled, {tokens(earned)} tokens to worker {worker}"

    def _round_gas(self, round_id: int) -> int:
        total = 0
        for name in ("RoundCommitted", "VerificationsCommitted", "RoundSettled", "RoundPaid"):
            for event in self.net.chain.events("rounds", name, roundId=round_id):
                total += self.net.chain.wait_receipt(event.transaction)["gasUsed"]
        return total

    def cheating_worker(self, worker: int, cheat: str, event: tuple[str, str]) -> str:
        """Restart ``worker`` with a cheat, get it drawn, and see it rejected and slashed by ``event``."""
        contract, name = event
        say(f"\nworker {worker} restarts with --cheat {cheat}")
        self.net.start_worker(worker, cheat)
        self.net.wait_workers()
        operator = self.net.address(worker)
        # Forged text can be proven to the contract only at an opened position, so one job may not be enough.
        jobs = 0
        for _ in range(5):
            generation, count = self.until_drawn(worker, 32)
            jobs += count
            receipt = self.finished(generation, 120)
            if receipt.settlement.record.outcome is Verdict.ACCEPT:
                raise Failed(f"{cheat}: the job was accepted")
            if receipt.settlement.record.client_pays:
                raise Failed(f"{cheat}: the client was charged {receipt.settlement.record.client_pays}")
            lost = self.net.slashed(operator)
            if lost:
                break
        else:
            raise Failed(f"{cheat}: rejected, but not slashed within 5 jobs")
        events = self.net.chain.events(contract, name)
        if not any(operator in (e.args.get("worker"), e.args.get("loser")) for e in events):
            raise Failed(f"{cheat}: no {name} names {operator}")
        verdict = next(v.verdict for v in receipt.verifiers if v.verdict.verdict is Verdict.REJECT)
        place = "token" if verdict.boundary == 0xFFFF else f"boundary {verdict.boundary}"
        say(
            f"  slashed after {jobs} jobs; rejected at {place}, position {verdict.position}; "
            f"{name}: {tokens(lost)} tokens slashed, client charged 0"
        )
        self.net.start_worker(worker)
        return f"rejected, {tokens(lost)} tokens slashed ({name})"

    def lazy_verifier(self, worker: int) -> str:
        say(f"\nworker {worker} restarts with --cheat lazy: it signs rows that it never computed")
        self.net.start_worker(worker, "lazy")
        self.net.wait_workers()
        operator = self.net.address(worker)
        count, verifiers = 0, set[str]()
        while operator not in verifiers and count < 12:
            count += 1
            for generation in [self.submit(16)[0] for _ in range(2)]:
                verifiers.update(self.finished(generation, 120).settlement.record.verifiers)
        lost = wait_for("slash of the lazy verifier", lambda: self.net.slashed(operator) or None, 120)
        say(f"  drawn after {2 * count} jobs; its opening diverges; a jury slashed {tokens(lost)} tokens")
        self.net.start_worker(worker)
        return f"caught by its opening, {tokens(lost)} tokens slashed (DisputeResolved)"

    def dying_worker(self, worker: int) -> str:
        say(f"\nworker {worker} restarts with --cheat die-after:8: the process ends in the middle of a job")
        self.net.start_worker(worker, "die-after:8")
        self.net.wait_workers()
        for _ in range(40):
            generation, moves, _ = self.submit(32)
            if self.net.workers[worker].process.poll() is not None:
                break
        else:
            raise Failed(f"worker {worker} was not drawn in 40 jobs")
        receipt = self.finished(generation)
        if receipt.settlement.record.outcome is not Verdict.ACCEPT or receipt.worker.commitment.attempt == 0:
            raise Failed("dying worker: the job was not finished by another worker")
        say(
            f"  died after 8 tokens; attempt {receipt.worker.commitment.attempt} finished all "
            f"{len(receipt.output)} tokens elsewhere (stream reset {moves} times) and was paid once"
        )
        self.net.start_worker(worker)
        return "finished elsewhere, paid once"


def summary(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    say("\n" + "-" * 88)
    for name, result in rows:
        say(f"  {name:<{width}}  {result}")
    say("-" * 88)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m", help="name, folder or .gguf (smollm2-135m)")
    parser.add_argument("--keep", action="store_true", help="leave the network running until Ctrl-C")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the stack stops every process
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir()
    started = time.monotonic()
    rows: list[tuple[str, str]] = []
    with ExitStack() as stack:
        try:
            net = start_network(stack, args.model)
            client = stack.enter_context(Client(net.scheduler, net.rpc, account(2), net.book, [net.folder]))
            client.deposit_escrow(ESCROW)
            demo = Demo(net, client)
            steps: list[tuple[str, Callable[[], str]]] = [
                ("honest job", demo.honest),
                ("int4 weights", lambda: demo.cheating_worker(1, "int4", ("court", "DisputeResolved"))),
                ("lazy verifier", lambda: demo.lazy_verifier(2)),
                ("worker dies", lambda: demo.dying_worker(3)),
                ("forged output", lambda: demo.cheating_worker(4, "forge", ("tribunal", "TokenFraudProven"))),
            ]
            for name, step in steps:
                rows.append((name, step()))
        except (VeriLLMError, ConfigError) as error:
            summary([*rows, ("FAILED", str(error))])
            return 1
        summary([*rows, ("all as expected", f"{time.monotonic() - started:.0f} s")])
        if args.keep:
            say(f"the network is up: verillm run 'Hello' --network {STATE / 'network.json'}; Ctrl-C ends it")
            with suppress(KeyboardInterrupt):
                signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
