"""Submit jobs: ``Client`` and, for asyncio, ``AsyncClient``. Text needs ``tokenizers`` and ``jinja2``."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import to_checksum_address

from verillm import eip712
from verillm.chain import AddressBook, ChainClient
from verillm.commitment import token_list_hash
from verillm.constants import PPM
from verillm.errors import ConfigError, InsufficientEscrow, InvalidRequest
from verillm.rpc import codec
from verillm.rpc import verillm_pb2 as pb
from verillm.sdk.generation import Generation, Stream, wait_receipt
from verillm.sdk.models import KnownModel, choose_model, load_models
from verillm.sdk.receipt import Receipt
from verillm.sdk.scheduler import SchedulerConnection
from verillm.settlement import max_job_cost
from verillm.types import MAX_STOP_STRINGS, MAX_VERIFIERS, Job

Prompt = str | Sequence[Mapping[str, str]] | Sequence[int]
DEFAULT_INPUT_PRICE = 10**14
DEFAULT_OUTPUT_PRICE = 10**15
"""Token wei per token: 0.0001 and 0.001 of a token with 18 decimals."""
DEFAULT_DEADLINE_SECONDS = 3600.0


@dataclass(frozen=True)
class ClientStatus:
    """Amounts in token wei. ``escrow`` is what lies with this scheduler; ``models`` are those it serves:
    ``name:dtype 0x…`` where the client knows them, else the id."""

    chain_id: int
    client: str
    scheduler: str
    live_workers: int
    models: tuple[str, ...]
    balance: int
    escrow: int


def make_account(key: LocalAccount | str | bytes) -> LocalAccount:
    """An account from a private key (32 bytes or hex). Raises ConfigError without showing the key."""
    if isinstance(key, LocalAccount):
        return key
    try:
        account: LocalAccount = Account.from_key(key)
    except Exception as error:  # eth-keys raises several types, and their messages may hold the key
        reason = "key: is not a secp256k1 private key; give 64 hex digits"
        raise ConfigError(reason) from (error if isinstance(error, TypeError) else None)
    return account


def open_address_book(source: AddressBook | Mapping[str, Any] | str | Path) -> AddressBook:
    """An address book from itself, its fields, or its JSON file. Raises ConfigError."""
    if isinstance(source, AddressBook):
        return source
    if isinstance(source, (str, Path)):
        return AddressBook.read(source)
    try:
        return AddressBook(**source)
    except TypeError as error:
        raise ConfigError(f"address book: {error}; give the fields of the deployment's file") from error


class Client:
    """A client of one scheduler on one deployment.

    ``scheduler`` host:port; ``rpc`` the chain's JSON-RPC URL; ``account`` a private key or account;
    ``address_book`` path, mapping or AddressBook; ``models`` manifest files or model folders (a folder with
    tokenizer.json lets prompts be text). Prices are token wei per token. Raises ConfigError, ChainError or
    EncodingError at once for what cannot work; the scheduler is first asked when it is needed.
    """

    def __init__(
        self,
        scheduler: str,
        rpc: str,
        account: LocalAccount | str | bytes,
        address_book: AddressBook | Mapping[str, Any] | str | Path,
        models: str | Path | Iterable[str | Path] = (),
        *,
        input_price: int = DEFAULT_INPUT_PRICE,
        output_price: int = DEFAULT_OUTPUT_PRICE,
    ) -> None:
        self.account = make_account(account)
        self.addresses = open_address_book(address_book)
        self.models = load_models([models] if isinstance(models, (str, Path)) else models)
        self.prices = input_price, output_price
        self.scheduler = SchedulerConnection(scheduler)
        self.chain = ChainClient(rpc, self.addresses, self.account)
        self.domain = self.addresses.domain

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the scheduler."""
        self.scheduler.close()

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, **options: Any) -> Generation: ...

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Stream: ...

    def generate(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Generation | Stream:
        """Submit one job and return its Generation, or with ``stream`` an iterable of TextDelta and Reset.

        ``prompt``: text (a user's message if the model has a chat template), messages with role and content,
        or token ids. ``options`` are those of ``prepare``. Raises InvalidRequest, InsufficientEscrow,
        ChainError or SchedulerError, before anything is charged.
        """
        submission, model = self.prepare(prompt, **options)
        timeout = max(submission.job.deadline - time.time(), 1.0)
        call = self.scheduler.submit(codec.submission_to_proto(submission), timeout)
        result = Stream(self.scheduler, call, submission, self.domain, model.text, self._signs_for)
        return result if stream else result.generation

    def prepare(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        verifiers: int = 2,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
    ) -> tuple[codec.Submission, KnownModel]:
        """Check everything that can be checked here, and sign the job. ``seed`` None: a random one.

        ``model`` is a name, name:dtype or 0x-id, or None if only one fits; ``stop`` at most 4 strings.
        """
        info = self._info()
        known = choose_model(self.models, list(info.model_ids), model)
        tokens = self._tokens(prompt, known)
        stop = (stop,) if isinstance(stop, str) else tuple(stop)
        self._check_limits(known, tokens, max_tokens, stop, verifiers)
        job = Job(
            client=self.account.address,
            scheduler=to_checksum_address(bytes(info.address)),
            model_id=known.model_id,
            prompt_hash=token_list_hash(tokens),
            prompt_tokens=len(tokens),
            max_output_tokens=max_tokens,
            stop_hash=eip712.stop_hash(stop),
            temperature_ppm=_ppm("temperature", temperature),
            top_k=top_k,
            top_p_ppm=_ppm("top_p", top_p),
            seed=secrets.randbits(64) if seed is None else seed,
            input_price=self.prices[0],
            output_price=self.prices[1],
            verifiers=verifiers,
            deadline=int(time.time() + deadline_seconds),
            nonce=secrets.randbits(128),
        )
        _ = job.sampling  # its constructor names a field that is out of range
        self._check_escrow(job)
        return codec.Submission(job, eip712.sign_job(job, self.account, self.domain), tokens, stop), known

    def receipt(self, job_id: bytes, timeout: float = 600.0) -> Receipt:
        """The receipt of an earlier job. Raises SchedulerError if there is none in ``timeout`` seconds."""
        return Receipt.from_json(wait_receipt(self.scheduler, job_id, timeout))

    def deposit_escrow(self, amount: int) -> int:
        """Put ``amount`` token wei into escrow with this scheduler and return the new escrow."""
        if amount <= 0:
            raise InvalidRequest(f"amount: {amount} must be at least 1 token wei")
        balance = self.chain.token_balance(self.account.address)
        if balance < amount:
            raise InsufficientEscrow(
                f"balance: {self.account.address} has {balance} token wei, {amount} are to be deposited; "
                "get tokens first"
            )
        scheduler = to_checksum_address(bytes(self._info().address))
        self.chain.deposit_escrow(scheduler, amount)
        return self.chain.escrow(self.account.address, scheduler)

    def status(self) -> ClientStatus:
        """Where client and scheduler stand. Raises SchedulerError or ChainError."""
        info = self._info()
        scheduler = to_checksum_address(bytes(info.address))
        labels = {m.model_id: f"{m.label} " for m in self.models}
        return ClientStatus(
            chain_id=self.chain.chain_id,
            client=self.account.address,
            scheduler=scheduler,
            live_workers=info.live_workers,
            models=tuple(f"{labels.get(i, '')}0x{i.hex()}" for i in info.model_ids),
            balance=self.chain.token_balance(self.account.address),
            escrow=self.chain.escrow(self.account.address, scheduler),
        )

    def _info(self) -> pb.SchedulerInfo:
        info = self.scheduler.info()
        if info.chain_id != self.addresses.chain_id:
            raise ConfigError(
                f"chain id: the scheduler works on chain {info.chain_id}, the address book is for "
                f"{self.addresses.chain_id}; use the address book of its deployment"
            )
        if bytes(info.contract) != bytes.fromhex(self.addresses.rounds[2:]):
            raise ConfigError("contract: the scheduler works with other contracts; use its address book")
        if len(info.address) != 20:
            raise ConfigError(f"scheduler: {self.scheduler.target} gives no address; is it a scheduler?")
        return info

    def _tokens(self, prompt: Prompt, model: KnownModel) -> tuple[int, ...]:
        if not prompt:
            raise InvalidRequest("prompt: is empty; give text, messages or token ids")
        if all(type(item) is int for item in prompt):
            return tuple(prompt)  # type: ignore[arg-type]
        if model.text is None:
            raise ConfigError(
                f"tokenizer: {model.folder} has no tokenizer.json; give the model folder, or token ids"
            )
        if isinstance(prompt, str):
            messages: Any = [{"role": "user", "content": prompt}]
            chat = model.text.has_chat
            return tuple(model.text.chat(messages) if chat else model.text.encode(prompt))
        return tuple(model.text.chat(prompt))  # type: ignore[arg-type]

    def _check_limits(
        self, model: KnownModel, tokens: Sequence[int], max_tokens: int, stop: Sequence[str], verifiers: int
    ) -> None:
        manifest = model.manifest
        if type(max_tokens) is not int or max_tokens < 1:
            raise InvalidRequest(f"max_tokens: {max_tokens} must be an integer of at least 1")
        if len(tokens) + max_tokens > manifest.max_positions:
            raise InvalidRequest(
                f"prompt: {len(tokens)} tokens + max_tokens {max_tokens} exceed the model's "
                f"{manifest.max_positions} positions; shorten the prompt or ask for fewer tokens"
            )
        for position, token in enumerate(tokens):
            if not 0 <= token < manifest.vocab_size:
                raise InvalidRequest(
                    f"prompt[{position}]: token {token} is outside 0 to {manifest.vocab_size - 1}"
                )
        if len(stop) > MAX_STOP_STRINGS or not all(isinstance(text, str) and text for text in stop):
            raise InvalidRequest(f"stop: give at most {MAX_STOP_STRINGS} strings, none of them empty")
        if not 1 <= verifiers <= MAX_VERIFIERS:
            raise InvalidRequest(f"verifiers: {verifiers} is outside 1 to {MAX_VERIFIERS}")

    def _signs_for(self, operator: str, signer: str) -> bool:
        return operator == signer or self.chain.is_signer(operator, signer, self.chain.current_epoch())

    def _check_escrow(self, job: Job) -> None:
        cost = max_job_cost(job, self.chain.params)
        escrow = self.chain.escrow(job.client, job.scheduler)
        if escrow < cost:
            raise InsufficientEscrow(
                f"escrow: {escrow} token wei lie with this scheduler, the job can cost {cost}; "
                f"deposit at least {cost - escrow} more (verillm deposit, Client.deposit_escrow)"
            )


def _ppm(name: str, value: float) -> int:
    """Millionths. Raises InvalidRequest for NaN, infinity or a value that is no number."""
    try:
        return round(value * PPM)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"{name}: {value!r} is not a number") from error
