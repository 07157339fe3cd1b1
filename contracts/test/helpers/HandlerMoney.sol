// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Params, SCHEDULER_POOL} from "../../src/Types.sol";
import {HandlerBase} from "./HandlerBase.sol";

/// @notice Clients' escrows, stakes of operators and schedulers, earnings, new parameters, pauses, and time.
abstract contract HandlerMoney is HandlerBase {
    mapping(bytes32 pool => mapping(address account => bool)) private _unseated;

    // --- clients ---

    function deposit(uint256 seed) external action(seed) {
        if (parameters.paused()) return;
        (address who, address with) = (clients[roll(CLIENTS)], schedulers[roll(SCHEDULERS)]);
        uint256 amount = someOf(token.balanceOf(who) / 4);
        vm.prank(who);
        rounds.depositEscrow(with, amount);
        escrowed[who][with] += amount;
        did("deposit");
    }

    /// @dev Announces, or takes out what was announced; impatient clients let the delay pass at once.
    function leaveEscrow(uint256 seed) external action(seed) {
        (address who, address with) = (clients[roll(CLIENTS)], schedulers[roll(SCHEDULERS)]);
        (, uint256 leaving) = rounds.escrowOf(who, with);
        if (leaving == 0) {
            uint256 amount = someOf(escrowTotal(who, with));
            vm.prank(who);
            rounds.requestEscrowWithdrawal(with, amount);
            did("announce");
            if (amount == 0 || !chance(20)) return;
            vm.roll(vm.getBlockNumber() + parameters.current().escrowDelayBlocks);
        }
        takeEscrow(who, with);
    }

    function takeEscrow(address who, address with) internal {
        vm.prank(who);
        try rounds.withdrawEscrow(with) returns (uint256 amount) {
            escrowed[who][with] -= amount;
            did("escrow withdrawn");
        } catch {} // not released yet
    }

    function collect(uint256 seed) external action(seed) {
        uint256 i = roll(OPERATORS + SCHEDULERS + 1);
        takeBalance(
            i < OPERATORS ? operators[i] : i == OPERATORS ? challenger : schedulers[i - OPERATORS - 1]
        );
    }

    function takeBalance(address who) internal {
        if (rounds.balances(who) == 0) return;
        vm.prank(who);
        rounds.withdraw();
        did("balance withdrawn");
    }

    // --- stakes ---

    function stakeMore(uint256 seed) external action(seed) {
        (bytes32 pool, address who) = _staker();
        uint256 amount = params.minStake + someOf(2 * params.minStake);
        if (token.balanceOf(who) < amount) return;
        vm.prank(who);
        if (!_unseated[pool][who]) staking.increaseStake(pool, amount);
        else if (pool == SCHEDULER_POOL) staking.registerScheduler(amount, "", VRF_KEY);
        else staking.registerOperator(pool, amount, "");
        if (_unseated[pool][who]) did("returned");
        _unseated[pool][who] = false;
        did("staked");
    }

    function unbond(uint256 seed) external action(seed) {
        (bytes32 pool, address who) = _staker();
        uint256 active = staking.activeStake(pool, who);
        if (active == 0) return;
        uint256 amount = chance(40) ? active : 1 + roll(active);
        if (active - amount < params.minStake) amount = active;
        vm.prank(who);
        staking.requestUnbond(pool, amount);
        did("unbonded");
    }

    function takeStake(uint256 seed) external action(seed) {
        (bytes32 pool, address who) = _staker();
        vm.prank(who);
        try staking.withdrawUnbonded(pool) {
            did("stake withdrawn");
        } catch {} // nothing is released yet
        try staking.releaseSeat(pool, who) {
            _unseated[pool][who] = true;
            did("seat released");
        } catch {} // still drawn, or not idle long enough
    }

    /// @dev Schedulers pay dearly for their lies here, so they come up more often than operators. `params` become the
    /// current ones.
    function _staker() private returns (bytes32, address) {
        params = parameters.current();
        return
            chance(40)
                ? (SCHEDULER_POOL, schedulers[roll(SCHEDULERS)])
                : (modelId, operators[roll(OPERATORS)]);
    }

    // --- time and parameters ---

    function wait(uint256 seed) external action(seed) {
        // The long wait makes block hashes expire.
        vm.roll(vm.getBlockNumber() + 1 + (chance(10) ? 257 + roll(300) : roll(20)));
        did("wait");
    }

    function pause(uint256 seed) external action(seed) {
        bool paused = parameters.paused();
        if (!paused && !chance(20)) return;
        vm.prank(guardian);
        parameters.setPaused(!paused);
        did("pause");
    }

    function publish(uint256 seed) external action(seed) {
        if (!chance(30)) return;
        Params memory p = parameters.current();
        p.minStake = uint128(STAKE / 2 + roll(STAKE));
        p.disputeBond = uint128(1 + roll(200 ether));
        p.randomnessDelayBlocks = uint32(1 + roll(4));
        p.settleBlocks = uint32(100 + roll(380));
        p.challengeWindowBlocks = uint32(10 + roll(50));
        p.openingDeadlineBlocks = uint32(5 + roll(30));
        p.juryCommitBlocks = uint32(5 + roll(30));
        p.juryRevealBlocks = uint32(5 + roll(20));
        p.jurySize = uint16(1 + 2 * roll(2));
        p.maxAppeals = uint16(roll(3));
        p.slashBpsDivergence = uint16(1 + roll(10_000));
        p.slashBpsTokenFraud = uint16(1 + roll(10_000));
        p.slashBpsWithheld = uint16(1 + roll(10_000));
        p.slashBpsSettlement = uint16(1 + roll(10_000));
        p.slashBpsNoShow = uint16(roll(1000));
        p.challengerShareBps = uint16(roll(10_001));
        p.jurorShareBps = uint16(roll(10_001 - p.challengerShareBps));
        p.verifierFeeBps = uint16(roll(3000));
        p.schedulerFeeBps = uint16(roll(1000));
        (p.escrowDelayBlocks, p.unbondingBlocks) = (720, 1000); // above all that these can sum to, and the first
        parameters.publish(p);
        did("publish");
    }
}
