"""What a restarted scheduler finds of its rounds on a real chain."""

import pytest
from eth_account import Account

from node.rounds import posted_round
from verillm import vrf
from verillm.chain import ChainClient
from verillm.chain.deploy import deploy
from verillm.chain.devnet import account, start_anvil

STAKE = 2000 * 10**18


@pytest.fixture(scope="module")
def scheduler():
    with start_anvil() as devnet:
        book = deploy(devnet.rpc_url, account(0), "devnet")
        bank = ChainClient(devnet.rpc_url, book, account(0))
        bank.mint_test_token(account(1).address, STAKE)
        chain = ChainClient(devnet.rpc_url, book, account(1))
        chain.register_scheduler(STAKE, "127.0.0.1:1", vrf.public_key(bytes(account(1).key)))
        yield chain


def test_a_round_that_was_posted_before_a_crash_is_found(scheduler):
    start = scheduler.block_number()
    scheduler.commit_round(b"\1" * 32, b"\2" * 32, 1)
    mine = scheduler.commit_round(b"\1" * 32, b"\3" * 32, 1)
    assert posted_round(scheduler, scheduler.address, start, b"\3" * 32) == mine
    assert posted_round(scheduler, scheduler.address, start, b"\4" * 32) == 0
    assert posted_round(scheduler, Account.create().address, start, b"\3" * 32) == 0
    assert posted_round(scheduler, scheduler.address, scheduler.block_number() + 1, b"\3" * 32) == 0
