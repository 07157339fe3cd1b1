"""One anvil for the folder; each test gets the same deployment, rolled back afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chain.world import DEPLOYER, World
from verillm.chain.deploy import deploy
from verillm.chain.devnet import Devnet, start_anvil


@pytest.fixture(scope="session")
def devnet() -> Iterator[Devnet]:
    with start_anvil() as running:
        yield running


@pytest.fixture(scope="session")
def deployed(devnet: Devnet) -> World:
    world = World(devnet, deploy(devnet.rpc_url, DEPLOYER, "devnet"))
    world.set_up()
    return world


@pytest.fixture
def world(devnet: Devnet, deployed: World) -> Iterator[World]:
    snapshot = devnet.rpc("evm_snapshot")
    yield World(devnet, deployed.book)
    devnet.rpc("evm_revert", snapshot)
