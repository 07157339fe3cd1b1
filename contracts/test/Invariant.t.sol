// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {TestToken} from "../src/TestToken.sol";
import {Handler} from "./helpers/Handler.sol";

/// @notice Money is conserved whatever clients, operators, challengers and jurors do, in any order.
/// forge-config: default.invariant.fail-on-revert = true
contract InvariantTest is Test {
    Handler private handler;
    TestToken private token;
    address private staking;
    address private rounds;
    address private court;
    address private tribunal;

    function setUp() public {
        handler = Handler(deployCode("Handler.sol:Handler"));
        handler.setUp();
        address tokenAddress;
        (tokenAddress, staking, rounds, court, tribunal) = handler.contracts();
        token = TestToken(tokenAddress);
        bytes4[] memory actions = new bytes4[](9);
        actions[0] = handler.deposit.selector;
        actions[1] = handler.leave.selector;
        actions[2] = handler.stakeMore.selector;
        actions[3] = handler.unbond.selector;
        actions[4] = handler.collect.selector;
        actions[5] = handler.serve.selector;
        actions[6] = handler.dispute.selector;
        actions[7] = handler.demand.selector;
        actions[8] = handler.tokenFraud.selector;
        targetSelector(FuzzSelector(address(handler), actions));
        targetContract(address(handler));
    }

    function invariant_money_is_conserved() public view {
        assertEq(token.balanceOf(rounds), handler.owedByRounds(), "rounds holds escrows and balances");
        assertEq(token.balanceOf(staking), handler.staked(), "staking holds the stakes");
        assertEq(token.balanceOf(court), handler.rewardsOf(court), "court holds rewards");
        assertEq(token.balanceOf(tribunal), handler.rewardsOf(tribunal), "tribunal holds rewards");
        assertEq(token.totalSupply(), handler.supply(), "nothing is minted");
        for (uint256 i; i < handler.CLIENTS(); ++i) {
            address client = handler.clientAt(i);
            assertEq(
                handler.escrowTotal(client) + handler.takenOut(client) + handler.signedAway(client),
                handler.deposited(client),
                "an escrow falls by its owner's withdrawals and signed jobs alone"
            );
        }
    }

    function afterInvariant() public view {
        assertGe(handler.done() * 2, handler.calls(), "most actions are taken");
    }
}
