"""What a user sees when the endpoint, the key, the money or the address book is wrong."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from eth_account import Account

from tests.chain.world import CLIENT, DEPLOYER, MODEL_ID, OPERATORS, SCHEDULER, STAKE, World
from verillm import vrf
from verillm.chain import AddressBook, ChainClient, compile
from verillm.chain.connection import Connection
from verillm.chain.deploy import Settings, book_path, deploy, estimate, plan
from verillm.chain.devnet import account, start_anvil
from verillm.chain.header import encode_header
from verillm.errors import ChainError, ConfigError
from verillm.params import load_params, timelock_seconds


def test_unreachable_endpoint_and_wrong_chain(world: World) -> None:
    with pytest.raises(ChainError, match=r"rpc: http://127.0.0.1:1 does not answer \(ConnectionError\)"):
        ChainClient("http://127.0.0.1:1", world.book)
    with pytest.raises(ChainError, match="serves chain 31337, the address book is for 5"):
        ChainClient(world.devnet.rpc_url, replace(world.book, chain_id=5))


def test_no_key_no_gas_no_tokens(world: World) -> None:
    reader = ChainClient(world.devnet.rpc_url, world.book)
    with pytest.raises(ChainError, match="this client has no key"):
        reader.withdraw()
    poor = world.as_account(Account.from_key(b"\5" * 32))
    with pytest.raises(ChainError, match=r"mint: 0x\w{40} has not enough ETH for gas"):
        poor.mint_test_token(poor.address, 1)
    poorer = world.as_account(account(15))
    with pytest.raises(ChainError, match=r"depositEscrow: ERC20InsufficientBalance\(0x\w+, 0, 5\)"):
        poorer.deposit_escrow(SCHEDULER.address, 5)


def test_errors_are_one_line_and_name_the_contracts_reason(world: World) -> None:
    with pytest.raises(ChainError) as caught:
        world.client.round(7)
    assert str(caught.value) == "round: there is no round 7"
    with pytest.raises(ChainError, match=r"requestUnbond: StakeInsufficient\(1\d*, 2\d*\)"):
        world.as_account(OPERATORS[0]).request_unbond(MODEL_ID, 10**30)


def test_endpoint_registered_on_chain(world: World) -> None:
    assert world.client.operator(OPERATORS[1].address).endpoint == "127.0.0.1:3"
    assert world.client.operator(CLIENT.address).endpoint == ""
    assert len(world.client.vrf_public_key(SCHEDULER.address)) == 33


def test_events_are_read_in_bounded_ranges(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(world.client.events("staking", "OperatorRegistered"))
    assert [e.args["operator"] for e in whole] == [SCHEDULER.address] + [k.address for k in OPERATORS]
    monkeypatch.setattr("verillm.chain.connection.LOG_BLOCKS", 1)
    assert list(world.client.events("staking", "OperatorRegistered", 0, whole[-1].block)) == whole
    assert list(world.client.events("staking", "OperatorRegistered", whole[-1].block)) == whole[-1:]


def test_headers_hash_to_their_block(world: World) -> None:
    block = world.client.connection.block()
    assert encode_header(block)[:1] == b"\xf9"
    with pytest.raises(ChainError, match="header's hash is not the block's"):
        encode_header({**block, "mixHash": bytes(32)})


def test_nonces_recover_after_another_sender(world: World) -> None:
    first, second = world.as_account(CLIENT), world.as_account(CLIENT)
    first.transfer_eth(OPERATORS[0].address, 1)
    second.transfer_eth(OPERATORS[0].address, 1)
    with pytest.raises(ChainError, match="nonce"):
        first.transfer_eth(OPERATORS[0].address, 1)
    first.transfer_eth(OPERATORS[0].address, 1)


def test_courts_are_named_once(world: World) -> None:
    chain = world.as_account(DEPLOYER)
    courts = [world.book.court, world.book.tribunal, world.book.audit, world.book.inquiry]
    for contract in ("staking", "rounds"):
        assert [event.args["court"] for event in chain.events(contract, "CourtNamed")] == courts
        with pytest.raises(ChainError, match="CourtsAlreadySet"):
            chain._send(contract, "setCourts", [DEPLOYER.address])
    assert chain._call("parameters", "owner") == world.book.timelock
    assert chain._call("parameters", "guardian") == DEPLOYER.address


def test_only_the_guardian_pauses_and_nobody_but_the_timelock_publishes(world: World) -> None:
    with pytest.raises(ChainError, match=r"setPaused: NotGuardian\("):
        world.client._send("parameters", "setPaused", True)
    with pytest.raises(ChainError, match=r"publish: OwnableUnauthorizedAccount\("):
        world.as_account(DEPLOYER)._send("parameters", "publish", world.params.as_tuple())
    world.as_account(DEPLOYER)._send("parameters", "setPaused", True)
    assert world.client.paused()
    with pytest.raises(ChainError, match="depositEscrow: DepositsPaused"):
        world.client.deposit_escrow(SCHEDULER.address, 1)


def test_a_new_version_of_the_parameters_is_seen(world: World) -> None:
    """Proposed, and after the devnet's delay of 0 executed, by the deployer."""
    chain, client = world.as_account(DEPLOYER), world.client
    changed = replace(world.params, challenge_window_blocks=13)
    data = client.connection.encode(client._contracts["parameters"], "publish", changed.as_tuple())
    call = (world.book.parameters, 0, data, bytes(32), bytes(32))
    chain._send("timelock", "schedule", *call, 0)
    chain._send("timelock", "execute", *call)
    assert (client.params_version(), client.params) == (2, changed)
    assert client.params_at(1) == world.params


def test_keys_and_endpoints_change_by_epoch(world: World) -> None:
    operator, hot = OPERATORS[0].address, account(15).address
    chain = world.as_account(OPERATORS[0])
    world.begin_epoch()
    now = chain.current_epoch()
    assert chain.is_signer(operator, operator, now)
    assert not chain.is_signer(operator, hot, now)
    chain.set_signer(hot)
    chain.set_endpoint(MODEL_ID, "127.0.0.1:99")
    key = vrf.public_key(b"\7" * 32)
    world.scheduler.rotate_vrf_key(key)
    assert chain.operator(operator).endpoint == "127.0.0.1:99"
    old = vrf.public_key(bytes(SCHEDULER.key))
    assert chain.vrf_public_key(SCHEDULER.address) == old
    world.devnet.mine(world.params.epoch_blocks)
    assert chain.is_signer(operator, hot, now + 1)
    assert chain.signer_at(operator, now + 1) == hot
    assert chain.is_vrf_key(SCHEDULER.address, old, now)
    assert chain.is_vrf_key(SCHEDULER.address, key, now + 1)


def test_address_book_round_trip_and_refusals(world: World, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    world.book.write(path)
    assert AddressBook.read(path) == world.book
    assert (
        ChainClient(world.devnet.rpc_url, AddressBook.read(path)).escrow(CLIENT.address, SCHEDULER.address)
        == STAKE
    )
    for change, message in (
        ({"rounds": "0x12"}, "rounds .* is not an address"),
        ({"chain_id": "x"}, "chain_id .* must be a number"),
        ({"params_profile": "x"}, "unknown parameter profile"),
        ({"extra": 1}, "exactly the fields"),
    ):
        path.write_text(json.dumps(asdict(world.book) | change))
        with pytest.raises(ConfigError, match=message):
            AddressBook.read(path)
    with pytest.raises(ConfigError, match="cannot read"):
        AddressBook.read(tmp_path / "missing.json")


def test_mainnet_profile_needs_a_real_token_and_named_powers() -> None:
    settings = Settings("mainnet")
    for name, value in (("token", CLIENT.address), ("guardian", CLIENT.address), ("proposers", ("0x1",))):
        with pytest.raises(ConfigError, match=f"{name}: profile mainnet"):
            deploy("http://127.0.0.1:1", DEPLOYER, settings)
        settings = replace(settings, **{name: value})
    with pytest.raises(ConfigError, match="proposers: '0x1' is not an address"):
        deploy("http://127.0.0.1:1", DEPLOYER, settings)


@pytest.mark.parametrize("profile", ["devnet", "mainnet"])
def test_a_dry_run_foretells_addresses_and_gas_and_sends_nothing(profile: str) -> None:
    with start_anvil(accounts=1) as running:
        chain = Connection(running.rpc_url)
        settings = Settings(profile, guardian=CLIENT.address, proposers=(CLIENT.address.lower(),))
        if profile == "mainnet":
            settings = replace(settings, token=deploy(running.rpc_url, DEPLOYER, "devnet").token)
        first = chain.block_number()
        todo = plan(chain, DEPLOYER.address, settings)
        foretold = estimate(chain, todo)
        assert chain.block_number() == first
        assert chain.nonce_of(DEPLOYER.address) == todo.nonce
        assert deploy(running.rpc_url, DEPLOYER, settings) == todo.book
        for number, gas in enumerate(foretold, first + 1):
            (transaction,) = chain.web3.eth.get_block(number)["transactions"]
            used = chain.web3.eth.get_transaction_receipt(transaction)["gasUsed"]
            assert abs(gas - used) <= 20_000
        client = ChainClient(running.rpc_url, todo.book)
        assert client.params == load_params(profile)
        assert client._call("timelock", "getMinDelay") == timelock_seconds(profile)
        with pytest.raises(ChainError, match="eth_estimateGas: CourtsAlreadySet"):
            estimate(chain, replace(todo, nonce=todo.nonce + 20, steps=todo.steps[-1:]))


def test_address_books_by_chain_are_not_overwritten(tmp_path: Path) -> None:
    path = book_path(tmp_path / "books", 31337)
    assert path.name == "31337.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match="cannot make"):
        book_path(path, 31337)
    with pytest.raises(ConfigError, match=r"31337\.json exists"):
        book_path(tmp_path / "books", 31337)
    assert book_path(tmp_path / "books", 31337, force=True) == path
    assert book_path(tmp_path / "books", 1).name == "1.json"


def test_anvil_stops_and_refuses_a_taken_port() -> None:
    with start_anvil(accounts=1) as running:
        port = int(running.rpc_url.rsplit(":", 1)[1])
        assert Connection(running.rpc_url).block_number() == 0
        with pytest.raises(ChainError, match=f"port {port} is taken"), start_anvil(port):
            pass
    with pytest.raises(ChainError, match="does not answer"):
        running.rpc("eth_chainId")


def test_shipped_contracts_match_their_sources() -> None:
    assert compile.compiled_hash() == compile.source_hash(compile.standard_input()), (
        "contracts changed: run `python -m verillm.chain.compile` and commit verillm/chain/abi"
    )


def test_compiler_errors_name_the_line(tmp_path: Path) -> None:
    standard = compile.standard_input()
    standard["sources"] = {
        "contracts/src/A.sol": {"content": "pragma solidity ^0.8.28;\ncontract A { uint x = }"}
    }
    with pytest.raises(ChainError, match=r"solc: ParserError[\s\S]*A.sol:2"):
        compile.compile_contracts(standard)
    with pytest.raises(ConfigError, match="no Solidity files"):
        compile.read_sources(tmp_path)
    with pytest.raises(ConfigError, match=r"solc: .* is missing"):
        compile.compile_contracts(standard, tmp_path / "solc")
