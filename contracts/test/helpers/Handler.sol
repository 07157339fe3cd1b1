// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Inquiry} from "../../src/Inquiry.sol";
import {BURN, SCHEDULER_POOL} from "../../src/Types.sol";
import {HandlerDisputes} from "./HandlerDisputes.sol";

/// @notice Random but valid actions of everybody on all contracts; an action that has nothing to act on does nothing.
contract Handler is HandlerDisputes {
    /// @notice Everything ends and everybody leaves, under a pause that lasts: no exit needs anyone's permission.
    function drain() external action(0) {
        vm.prank(guardian);
        parameters.setPaused(true);
        while (disputes.length > 0) {
            stepDispute(disputes.length - 1, true);
        }
        while (asked.length > 0) {
            punishSilence(asked.length - 1);
        }
        while (demanded.length > 0) {
            punishWithheld(demanded.length - 1);
        }
        while (openRounds.length > 0) {
            _endRound(openRounds[openRounds.length - 1]);
        }
        for (uint256 i; i < OPERATORS; ++i) {
            _leave(modelId, operators[i]);
        }
        for (uint256 i; i < SCHEDULERS; ++i) {
            _leave(SCHEDULER_POOL, schedulers[i]);
        }
        takeBalance(challenger);
        for (uint256 i; i < CLIENTS * SCHEDULERS; ++i) {
            _leaveEscrow(clients[i / SCHEDULERS], schedulers[i % SCHEDULERS]);
        }
    }

    /// @dev A round that is not settled holds no money.
    function _endRound(uint256 id) private {
        while (games[id].stage == Stage.Settled) {
            // A void job whose record is hidden: silence about it refutes the round.
            if (
                games[id].lie == Lie.Hidden && rounds.pending(id).voidsOpen > 0 && !rounds.pending(id).refuted
            ) {
                askFor(id, Inquiry.Matter.Record, 0);
                punishSilence(asked.length - 1);
            }
            finish(id, true);
        }
        forget(id);
    }

    function _leave(bytes32 pool, address who) private {
        takeBalance(who);
        uint256 active = staking.activeStake(pool, who);
        vm.startPrank(who);
        if (active > 0) staking.requestUnbond(pool, active);
        vm.roll(vm.getBlockNumber() + parameters.current().unbondingBlocks);
        if (staking.stakeOf(pool, who) > 0) staking.withdrawUnbonded(pool);
        vm.stopPrank();
    }

    function _leaveEscrow(address who, address with) private {
        uint256 amount = escrowTotal(who, with);
        if (amount == 0) return;
        vm.prank(who);
        rounds.requestEscrowWithdrawal(with, amount);
        vm.roll(vm.getBlockNumber() + parameters.current().escrowDelayBlocks);
        takeEscrow(who, with);
    }

    // --- what the invariants compare ---

    function contracts() external view returns (address, address, address, address[4] memory) {
        return (
            address(token),
            address(staking),
            address(rounds),
            [address(court), address(tribunal), address(audit), address(inquiry)]
        );
    }

    function reserve() external view returns (uint256) {
        return rounds.reserve();
    }

    function clientAt(uint256 i) external view returns (address) {
        return clients[i];
    }

    function schedulerAt(uint256 i) external view returns (address) {
        return schedulers[i];
    }

    /// @notice What lies in the wallets of all, the burn address included.
    function inWallets() external view returns (uint256 sum) {
        for (uint256 i; i < CLIENTS; ++i) {
            sum += token.balanceOf(clients[i]);
        }
        for (uint256 i; i < OPERATORS; ++i) {
            sum += token.balanceOf(operators[i]);
        }
        for (uint256 i; i < SCHEDULERS; ++i) {
            sum += token.balanceOf(schedulers[i]);
        }
        sum += token.balanceOf(challenger) + token.balanceOf(BURN);
    }
}
