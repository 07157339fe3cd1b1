"""Receipt facts against the chain, and the client's money on a real dev chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sdk.fakes import FakeScheduler, serving
from tests.sdk.parties import CLIENT, SCHEDULER, STAKING
from verillm.chain import AddressBook, ChainClient
from verillm.chain.devnet import account, start_anvil
from verillm.cli.main import main
from verillm.errors import ChainError
from verillm.params import Params, load_params
from verillm.sdk import Client
from verillm.sdk.keys import KEY_VARIABLE
from verillm.sdk.onchain import check_chain
from verillm.sdk.receipt import Receipt


class HonestChain:
    """A chain that has exactly what a receipt says."""

    def __init__(self, receipt: Receipt) -> None:
        self.receipt, self.chain_id = receipt, receipt.chain_id
        self.addresses = SimpleNamespace(rounds=receipt.contract, staking=STAKING)

    def round(self, round_id: int) -> SimpleNamespace:
        r = self.receipt
        return SimpleNamespace(
            scheduler=r.job.scheduler,
            model_id=r.job.model_id,
            jobs=r.round.leaf.count,
            verifications=r.verifiers[0].leaf.count,
            epoch=r.round.epoch,
            params_version=3,
            verifier_seed=r.verifier_draw.randomness,
            position_seed=r.position_randomness,
            root=r.round.root,
            verification_root=r.round.verification_root,
            settlement_root=r.settlement.root,
        )

    def params_at(self, version: int) -> Params:
        assert version == 3
        return load_params("devnet")

    def stakes(self, model_id: bytes, epoch: int) -> list[list[object]]:
        return [list(pair) for pair in self.receipt.assignment.stakes]

    def vrf_key_at(self, scheduler: str, epoch: int) -> bytes:
        return self.receipt.assignment.vrf_public_key


def failed(receipt: Receipt, chain: HonestChain) -> set[str]:
    return {finding.name for finding in check_chain(receipt, chain) if not finding.ok}  # type: ignore[arg-type]


def test_the_chain_confirms_an_honest_receipt(honest: Receipt) -> None:
    assert failed(honest, HonestChain(honest)) == set()


def test_what_the_chain_does_not_know_is_found(honest: Receipt) -> None:
    chain, other = HonestChain(honest), b"\x09" * 32
    r = honest
    changes = {
        "chain-deployment": replace(r, chain_id=1),
        "chain-round": replace(r, round=replace(r.round, root=other)),
        "chain-vrf-key": replace(r, assignment=replace(r.assignment, vrf_public_key=b"\x02" * 33)),
        "chain-randomness": replace(r, position_randomness=other),
        "chain-stakes": replace(r, verifier_draw=replace(r.verifier_draw, stakes=r.verifier_draw.stakes[1:])),
        "chain-settlement": replace(r, settlement=replace(r.settlement, root=other)),
        "chain-terms": replace(r, terms=replace(r.terms, opened_positions=1)),
    }
    for name, receipt in changes.items():
        assert failed(receipt, chain) == {name}


def test_deploy_deposit_and_wrong_chain_on_anvil(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, account(0).key.hex())
    with start_anvil() as devnet:
        assert main(["deploy", "--rpc", devnet.rpc_url, "--dry-run"]) == 0
        plan = capsys.readouterr().out
        assert main(["deploy", "--rpc", devnet.rpc_url, "--dir", "books"]) == 0
        book = AddressBook.read("books/31337.json")
        assert f"Inquiry            {book.inquiry}" in plan
        assert "12 transactions" in plan
        capsys.readouterr()
        assert main(["deploy", "--rpc", devnet.rpc_url, "--dir", "books"]) == 2
        assert "books/31337.json exists" in capsys.readouterr().err
        owner = ChainClient(devnet.rpc_url, book, account(0))
        owner.transfer_eth(CLIENT.address, 10**18)
        owner.mint_test_token(CLIENT.address, 3 * 10**18)
        scheduler = FakeScheduler([])
        scheduler.info.contract = bytes.fromhex(book.rounds[2:])
        with serving(scheduler) as target:
            with Client(target, devnet.rpc_url, CLIENT, book) as client:
                assert client.deposit_escrow(10**18) == 10**18
                status = client.status()
            assert (status.balance, status.escrow) == (2 * 10**18, 10**18)
            assert status.scheduler == SCHEDULER.address
            flags = ["--rpc", devnet.rpc_url, "--scheduler", target, "--address-book", "books/31337.json"]
            monkeypatch.setenv(KEY_VARIABLE, CLIENT.key.hex())
            capsys.readouterr()
            assert main(["deposit", "0.5", "--json", *flags]) == 0
            assert json.loads(capsys.readouterr().out)["escrow"] == 15 * 10**17
        with pytest.raises(ChainError, match="chain id"):
            Client("x:1", devnet.rpc_url, CLIENT, replace(book, chain_id=1))
