// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {TestToken} from "../src/TestToken.sol";
import {Handler} from "./helpers/Handler.sol";

/// @notice Money is conserved whatever everybody does, in any order, and all of it can leave in the end.
/// @dev Runs and depth are those of foundry.toml's profiles: inline they would hold for the deep one too.
/// forge-config: default.invariant.fail-on-revert = true
contract InvariantTest is Test {
    Handler private handler;
    TestToken private token;
    address private staking;
    address private rounds;
    address[4] private courts;

    function setUp() public {
        handler = Handler(deployCode("Handler.sol:Handler"));
        handler.setUp();
        address tokenAddress;
        (tokenAddress, staking, rounds, courts) = handler.contracts();
        token = TestToken(tokenAddress);
        targetSelector(FuzzSelector(address(handler), _actions()));
        targetContract(address(handler));
    }

    function invariant_money_is_conserved() public view {
        _assertAccounts();
        _assertEscrows();
    }

    function afterInvariant() public {
        _assertDrains();
    }

    /// @dev The invariants mean little if the handler never gets anywhere.
    function test_everything_that_can_happen_happens() public {
        bytes4[] memory actions = _actions();
        for (uint256 i; i < 6000; ++i) {
            uint256 seed = uint256(keccak256(abi.encode("seed", i)));
            (bool ok, bytes memory reason) =
                address(handler).call(abi.encodeWithSelector(actions[seed % actions.length], seed));
            if (ok) continue;
            assembly ("memory-safe") {
                revert(add(reason, 32), mload(reason))
            }
        }
        invariant_money_is_conserved();
        _assertDrains();
        string[38] memory happened = [
            "deposit",
            "announce",
            "escrow withdrawn",
            "balance withdrawn",
            "staked",
            "unbonded",
            "stake withdrawn",
            "seat released",
            "returned",
            "pause",
            "publish",
            "committed",
            "verified",
            "requeued",
            "abandoned",
            "settled honestly",
            "settled with a lie",
            "lie caught",
            "repeated job caught",
            "asked",
            "answered",
            "silence punished",
            "demanded",
            "opened",
            "withheld",
            "fraud proven",
            "invalid row proven",
            "two verdicts",
            "disputed",
            "jury seated",
            "jury requeued",
            "appealed",
            "resolved in part",
            "dispute decided",
            "dispute without end",
            "refunded",
            "deducted",
            "paid in part"
        ];
        for (uint256 i; i < happened.length; ++i) {
            assertGt(handler.times(happened[i]), 0, happened[i]);
        }
        assertGt(handler.times("paid"), 0, "paid");
        assertGt(handler.stolen(), 0, "lies that nobody challenges do steal");
    }

    function _assertAccounts() private view {
        assertEq(handler.reserve(), handler.owedByCourts(), "the reserve is open bonds and shares");
        assertEq(
            token.balanceOf(rounds),
            handler.owedByRounds() + handler.owedByCourts() + handler.locked(),
            "rounds hold escrows, balances, the reserve, and what settled rounds will pay"
        );
        assertEq(token.balanceOf(staking), handler.staked(), "staking holds the stakes");
        for (uint256 i; i < courts.length; ++i) {
            assertEq(token.balanceOf(courts[i]), 0, "courts hold nothing");
        }
        assertEq(token.totalSupply(), handler.supply(), "nothing is minted");
        assertEq(
            token.balanceOf(rounds) + token.balanceOf(staking) + handler.inWallets(),
            handler.supply(),
            "nothing is anywhere else"
        );
    }

    /// @dev By withdrawals and settlements alone; that these take what was signed, `_checkPaid` of the handler asserts.
    function _assertEscrows() private view {
        for (uint256 i; i < handler.CLIENTS(); ++i) {
            for (uint256 j; j < handler.SCHEDULERS(); ++j) {
                (address client, address scheduler) = (handler.clientAt(i), handler.schedulerAt(j));
                assertEq(handler.escrowTotal(client, scheduler), handler.escrowed(client, scheduler));
            }
        }
    }

    function _assertDrains() private {
        handler.drain();
        assertEq(token.balanceOf(rounds), 0, "rounds are empty");
        assertEq(token.balanceOf(staking), 0, "staking is empty");
        assertEq(handler.inWallets(), handler.supply(), "all is in wallets, or burned");
    }

    function _actions() private view returns (bytes4[] memory actions) {
        actions = new bytes4[](25);
        actions[0] = handler.deposit.selector;
        actions[1] = handler.leaveEscrow.selector;
        actions[2] = handler.collect.selector;
        actions[3] = handler.stakeMore.selector;
        actions[4] = handler.unbond.selector;
        actions[5] = handler.takeStake.selector;
        actions[6] = handler.wait.selector;
        actions[7] = handler.pause.selector;
        actions[8] = handler.publish.selector;
        actions[9] = handler.beginRound.selector;
        actions[10] = handler.challengeLie.selector;
        actions[11] = handler.challengeRepeated.selector;
        actions[12] = handler.ask.selector;
        actions[13] = handler.answerOrNot.selector;
        actions[14] = handler.demand.selector;
        actions[15] = handler.openOrNot.selector;
        actions[16] = handler.proveFraud.selector;
        actions[17] = handler.equivocate.selector;
        actions[18] = handler.openDispute.selector;
        actions[19] = handler.stepDispute.selector;
        // What moves everything on comes more often.
        actions[20] = handler.stepDispute.selector;
        actions[21] = handler.step.selector;
        actions[22] = handler.step.selector;
        actions[23] = handler.step.selector;
        actions[24] = handler.proveInvalid.selector;
    }
}
