"""Deploy the contracts, or say beforehand what that would do.

All transactions are known before the first is sent, since an account's nonces determine the addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import rlp
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_utils import is_hex_address, to_checksum_address

from verillm.chain.addresses import AddressBook
from verillm.chain.artifacts import load_artifact
from verillm.chain.connection import Connection
from verillm.eip712 import address_bytes
from verillm.errors import ChainError, ConfigError
from verillm.params import load_params, timelock_seconds

COURTS = ("Court", "Tribunal", "Audit", "Inquiry")


@dataclass(frozen=True)
class Step:
    """One transaction: the creation of a contract at ``address``, or a call of the one there."""

    name: str
    address: str
    data: str
    creates: bool


@dataclass(frozen=True)
class Plan:
    """A deployment's transactions, in order, and the addresses that they give."""

    sender: str
    nonce: int
    steps: tuple[Step, ...]
    book: AddressBook


@dataclass(frozen=True)
class Settings:
    """What is deployed. Without ``token`` (an existing ERC-20) it is a TestToken that anyone can mint.

    ``proposers`` may change parameters after the timelock, ``guardian`` may pause new rounds and deposits;
    both are the deployer if they are not given. The profile "mainnet" wants all three.
    """

    profile: str
    token: str | None = None
    proposers: tuple[str, ...] = ()
    guardian: str | None = None

    def check(self) -> None:
        """Raises ConfigError."""
        load_params(self.profile)
        for name in ("token", "guardian", "proposers"):
            value = getattr(self, name)
            if self.profile == "mainnet" and not value:
                raise ConfigError(f"{name}: profile mainnet needs it; give its address")
            for address in value if isinstance(value, tuple) else [value] if value else []:
                if not is_hex_address(address):
                    raise ConfigError(f"{name}: {address!r} is not an address; give 0x and 40 hex digits")


def plan(chain: Connection, sender: str, settings: Settings) -> Plan:
    """The transactions of a deployment by ``sender``. Raises ConfigError or ChainError; sends nothing."""
    settings.check()
    params = load_params(settings.profile)
    sender = to_checksum_address(sender)
    nonce = chain.nonce_of(sender)
    block = chain.block_number()
    steps: list[Step] = []

    def create(name: str, *args: object) -> str:
        artifact = load_artifact(name)
        address = created_address(sender, nonce + len(steps))
        data = chain.creation(artifact["abi"], artifact["bytecode"], *args)
        steps.append(Step(name, address, data, creates=True))
        return address

    def call(name: str, address: str, function: str, *args: object) -> None:
        data = chain.encode(chain.contract(address, load_artifact(name)["abi"]), function, *args)
        steps.append(Step(f"{name}.{function}", address, data, creates=False))

    token = to_checksum_address(settings.token) if settings.token else create("TestToken")
    proposers = [to_checksum_address(proposer) for proposer in settings.proposers or [sender]]
    guardian = to_checksum_address(settings.guardian or sender)
    timelock = create("Timelock", timelock_seconds(settings.profile), proposers)
    parameters = create("Parameters", timelock, guardian, params.as_tuple())
    staking = create("Staking", token, parameters)
    randomness = create("Randomness")
    rounds = create("Rounds", token, staking, randomness, parameters)
    courts = {name: create(name, staking, rounds) for name in COURTS}
    call("Staking", staking, "wire", rounds, list(courts.values()))
    call("Rounds", rounds, "setCourts", list(courts.values()))
    book = AddressBook(
        chain_id=chain.chain_id,
        token=token,
        timelock=timelock,
        parameters=parameters,
        staking=staking,
        randomness=randomness,
        rounds=rounds,
        court=courts["Court"],
        tribunal=courts["Tribunal"],
        audit=courts["Audit"],
        inquiry=courts["Inquiry"],
        params_profile=settings.profile,
        deploy_block=block,
    )
    return Plan(sender, nonce, tuple(steps), book)


def estimate(chain: Connection, plan: Plan) -> list[int]:
    """Gas of each step on the chain's present state, as if the steps before it had been sent; sends nothing.

    Earlier contracts are put in place by their code, without their storage, so a step that reads it may
    differ by some thousand gas. Raises ChainError if a step would revert, or if the endpoint cannot do this.
    """
    overrides: dict[str, dict[str, str]] = {}
    gas = []
    for i, step in enumerate(plan.steps):
        overrides[plan.sender] = {"nonce": hex(plan.nonce + i)}
        transaction = {"from": plan.sender, "data": step.data}
        if not step.creates:
            transaction["to"] = step.address
        gas.append(int(chain.request("eth_estimateGas", transaction, "latest", overrides), 16))
        if step.creates:
            code = chain.request("eth_call", transaction, "latest", overrides)
            overrides[step.address] = {"code": code}
    return gas


def deploy(rpc_url: str, account: LocalAccount, settings: Settings | str) -> AddressBook:
    """Deploy everything as ``settings`` (or a profile's name) say and return the addresses.

    Raises ConfigError or ChainError.
    """
    settings = Settings(settings) if isinstance(settings, str) else settings
    settings.check()
    chain = Connection(rpc_url, account=account)
    todo = plan(chain, account.address, settings)
    for step in todo.steps:
        fields = {"data": step.data} if step.creates else {"data": step.data, "to": step.address}
        receipt = chain.transact(step.name, fields)
        if step.creates and receipt["contractAddress"] != step.address:
            raise ChainError(
                f"{step.name}: is at {receipt['contractAddress']}, planned was {step.address}; another "
                "process used the account; deploy again with an account of its own"
            )
    return todo.book


def book_path(folder: str | Path, chain_id: int, force: bool = False) -> Path:
    """Where a folder keeps a chain's address book; makes the folder, so that writing it later succeeds.

    Raises ConfigError if there is a book already, unless ``force``, or if the folder cannot be made.
    """
    path = Path(folder) / f"{chain_id}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"address book: cannot make {folder}: {error.strerror}; give another") from error
    if path.exists() and not force:
        raise ConfigError(f"address book: {path} exists; use another folder, or --force to replace it")
    return path


def created_address(sender: str, nonce: int) -> str:
    """Where a contract that ``sender`` creates with ``nonce`` comes to be."""
    return to_checksum_address(keccak(rlp.encode([address_bytes(sender), nonce]))[12:])
