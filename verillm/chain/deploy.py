"""Deploy the contracts: token, Staking, Randomness, Rounds, Court, Tribunal, then name the courts once."""

from __future__ import annotations

from eth_account.signers.local import LocalAccount

from verillm.chain.addresses import AddressBook
from verillm.chain.artifacts import load_artifact
from verillm.chain.connection import Connection
from verillm.errors import ConfigError
from verillm.params import load_params


def deploy(rpc_url: str, account: LocalAccount, profile: str, token: str | None = None) -> AddressBook:
    """Deploy everything with a parameter profile and return its addresses.

    Without ``token`` (an existing ERC-20) a TestToken that anyone can mint is deployed; the profile "mainnet"
    refuses that. Raises ConfigError or ChainError.
    """
    params = load_params(profile)
    if token is None and profile == "mainnet":
        raise ConfigError("token: profile mainnet needs the address of an existing ERC-20 token")
    chain = Connection(rpc_url, account=account)
    block = chain.block_number()

    def create(name: str, *args: object) -> str:
        artifact = load_artifact(name)
        return chain.deploy(artifact["abi"], artifact["bytecode"], *args)

    values = params.as_tuple()
    token = token or create("TestToken")
    staking = create("Staking", token, values)
    randomness = create("Randomness", params.randomness_delay_blocks)
    rounds = create("Rounds", token, staking, randomness, values)
    court = create("Court", token, staking, randomness, rounds, values)
    tribunal = create("Tribunal", token, staking, rounds, values)
    for name, address in (("Staking", staking), ("Rounds", rounds)):
        chain.send(chain.contract(address, load_artifact(name)["abi"]), "setCourts", court, tribunal)
    return AddressBook(chain.chain_id, token, staking, randomness, rounds, court, tribunal, profile, block)
