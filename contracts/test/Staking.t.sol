// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Courts} from "../src/Courts.sol";
import {Keys} from "../src/Keys.sol";
import {ISlashReceiver, Staking} from "../src/Staking.sol";
import {ModelSpec, SCHEDULER_POOL} from "../src/Types.sol";
import {FeeToken} from "./mocks/FeeToken.sol";
import {ReentrantToken} from "./mocks/ReentrantToken.sol";
import {StakingWorld} from "./helpers/StakingWorld.sol";

contract StakingTest is StakingWorld {
    address private operator = makeAddr("operator");
    address private other = makeAddr("other");
    address private newcomer = makeAddr("newcomer");

    function setUp() public override {
        super.setUp();
        join(operator, STAKE);
        join(other, 3 * STAKE);
        nextEpoch();
    }

    // --- wiring ---

    function test_only_the_deployer_wires_and_only_once() public {
        address[] memory courts = new address[](1);
        vm.expectRevert(Courts.CourtsAlreadySet.selector);
        staking.wire(this, courts);
        Staking fresh = Staking(deployCode("Staking.sol:Staking", abi.encode(token, parameters)));
        vm.prank(newcomer);
        vm.expectRevert(Courts.CourtsAlreadySet.selector);
        fresh.wire(this, courts);
        assertEq(address(fresh.bank()), address(0));
    }

    function test_courts_are_not_named_without_a_bank() public {
        Staking fresh = Staking(deployCode("Staking.sol:Staking", abi.encode(token, parameters)));
        address[] memory courts = new address[](1);
        vm.expectRevert(Staking.BankMissing.selector);
        fresh.setCourts(courts);
        vm.expectRevert(Staking.BankMissing.selector);
        fresh.wire(ISlashReceiver(address(0)), courts);
    }

    // --- models ---

    function test_a_model_must_have_sizes_that_the_contracts_can_handle() public {
        ModelSpec memory s = spec();
        s.hiddenSize = 8193;
        _expectInvalid(s);
        s.hiddenSize = 0;
        _expectInvalid(s);
        (s.hiddenSize, s.vocabSize) = (8, 0);
        _expectInvalid(s);
        (s.vocabSize, s.rowDtype) = (8, 0);
        _expectInvalid(s);
        s.rowDtype = 4;
        _expectInvalid(s);
        (s.rowDtype, s.weightDtype) = (1, 0);
        _expectInvalid(s);
        s.weightDtype = 4;
        _expectInvalid(s);
        (s.weightDtype, s.rowToleranceQ40) = (1, new uint64[](0));
        _expectInvalid(s);
        s.rowToleranceQ40 = new uint64[](257);
        _expectInvalid(s);
    }

    function test_registering_a_model_twice_changes_nothing() public {
        assertEq(staking.registerModel(spec()), modelId);
        assertEq(staking.model(modelId).vocabSize, 8);
    }

    function test_an_unknown_model_is_refused() public {
        vm.expectRevert(abi.encodeWithSelector(Staking.ModelUnknown.selector, bytes32("nothing")));
        staking.model("nothing");
        vm.expectRevert(abi.encodeWithSelector(Staking.ModelUnknown.selector, bytes32("nothing")));
        staking.registerOperator("nothing", STAKE, "");
        vm.expectRevert(abi.encodeWithSelector(Staking.ModelUnknown.selector, SCHEDULER_POOL));
        staking.registerOperator(SCHEDULER_POOL, STAKE, "");
    }

    // --- registration ---

    function test_stake_below_the_minimum_is_refused() public {
        vm.prank(newcomer);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeTooSmall.selector, STAKE - 1, STAKE));
        staking.registerOperator(modelId, STAKE - 1, "");
    }

    function test_an_operator_registers_once_in_a_pool() public {
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(Staking.AlreadyRegistered.selector, operator));
        staking.registerOperator(modelId, STAKE, "");
    }

    /// @dev lidofinance/core#1755.
    function test_no_silent_downcast_of_a_stake() public {
        uint256 amount = (1 << 96) + STAKE;
        bytes memory refusal =
            abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, 96, amount);
        vm.prank(newcomer);
        vm.expectRevert(refusal);
        staking.registerOperator(modelId, amount, "");
        vm.prank(operator);
        vm.expectRevert(refusal);
        staking.increaseStake(modelId, amount - STAKE);
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeInsufficient.selector, amount, STAKE));
        staking.requestUnbond(modelId, amount);
    }

    function test_a_full_pool_takes_nobody_until_a_seat_is_released() public {
        for (uint256 i = 2; i < 1024; ++i) {
            join(account(i), STAKE);
        }
        fund(newcomer, STAKE);
        vm.prank(newcomer);
        vm.expectRevert(abi.encodeWithSelector(Staking.PoolFull.selector, 1024));
        staking.registerOperator(modelId, STAKE, "");
        unbond(operator, STAKE);
        pass(2 * params.unbondingBlocks);
        staking.releaseSeat(modelId, operator);
        vm.prank(newcomer);
        staking.registerOperator(modelId, STAKE, "");
        assertEq(staking.operatorAt(modelId, 0), newcomer);
        assertEq(staking.poolSize(modelId), 1024);
    }

    function test_strangers_have_no_seat_to_use() public {
        bytes memory refusal = abi.encodeWithSelector(Keys.NotRegistered.selector, newcomer);
        vm.startPrank(newcomer);
        vm.expectRevert(refusal);
        staking.increaseStake(modelId, 1);
        vm.expectRevert(refusal);
        staking.setEndpoint(modelId, "http://elsewhere");
        vm.expectRevert(refusal);
        staking.releaseSeat(modelId, newcomer);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeInsufficient.selector, 1, 0));
        staking.requestUnbond(modelId, 1);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        staking.withdrawUnbonded(modelId);
    }

    function test_stake_counts_from_the_next_epoch() public {
        uint48 now_ = staking.epoch();
        join(newcomer, 2 * STAKE);
        assertEq(staking.stakeAt(modelId, 2, now_), 0);
        assertEq(staking.stakeAt(modelId, 2, now_ + 1), 2 * STAKE);
        assertEq(staking.totalStakeAt(modelId, now_), 4 * STAKE);
        assertEq(staking.totalStakeAt(modelId, now_ + 1), 6 * STAKE);
        assertEq(staking.poolSize(modelId), 3);
        assertEq(staking.operatorAt(modelId, 2), newcomer);
        fund(newcomer, STAKE);
        vm.prank(newcomer);
        staking.increaseStake(modelId, STAKE);
        assertEq(staking.stakeAt(modelId, 2, now_), 0);
        assertEq(staking.stakeAt(modelId, 2, now_ + 1), 3 * STAKE);
        assertEq(staking.activeStake(modelId, newcomer), 3 * STAKE);
    }

    function test_the_pool_of_a_begun_epoch_never_changes() public {
        uint48 now_ = staking.epoch();
        (address[] memory operators, uint256[] memory weights) = staking.stakesAt(modelId, now_);
        assertEq(operators.length, 2);
        join(newcomer, STAKE);
        unbond(operator, STAKE);
        nextEpoch();
        (address[] memory later, uint256[] memory laterWeights) = staking.stakesAt(modelId, now_);
        assertEq(abi.encode(later, laterWeights), abi.encode(operators, weights));
        (operators,) = staking.stakesAt(modelId, 0);
        assertEq(operators.length, 0);
    }

    function test_an_operator_serves_several_models_with_separate_stakes() public {
        ModelSpec memory second = spec();
        second.vocabSize = 9;
        bytes32 secondId = staking.registerModel(second);
        fund(operator, 2 * STAKE);
        vm.prank(operator);
        staking.registerOperator(secondId, 2 * STAKE, "");
        staking.slash(secondId, operator, 10_000);
        assertEq(staking.stakeOf(secondId, operator), 0);
        assertEq(staking.stakeOf(modelId, operator), STAKE);
    }

    function test_an_endpoint_can_be_moved() public {
        vm.expectEmit(address(staking));
        emit Staking.EndpointChanged(modelId, operator, "http://elsewhere");
        vm.prank(operator);
        staking.setEndpoint(modelId, "http://elsewhere");
    }

    /// @dev The guardian stops new jobs, nobody's stake.
    function test_a_pause_stops_nothing_here() public {
        parameters.setPaused(true);
        join(newcomer, STAKE);
        fund(newcomer, STAKE);
        vm.prank(newcomer);
        staking.increaseStake(modelId, STAKE);
        unbond(newcomer, 2 * STAKE);
        assertEq(staking.slash(modelId, newcomer, 5000), STAKE);
        pass(params.unbondingBlocks);
        assertEq(withdraw(newcomer), STAKE);
    }

    // --- leaving ---

    function test_unbonding_waits_and_then_pays() public {
        vm.startPrank(other);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeInsufficient.selector, 3 * STAKE + 1, 3 * STAKE));
        staking.requestUnbond(modelId, 3 * STAKE + 1);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeInsufficient.selector, 0, 3 * STAKE));
        staking.requestUnbond(modelId, 0);
        staking.requestUnbond(modelId, STAKE);
        pass(params.unbondingBlocks - 1);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        staking.withdrawUnbonded(modelId);
        pass(1);
        assertEq(staking.withdrawUnbonded(modelId), STAKE);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        staking.withdrawUnbonded(modelId);
        assertEq(token.balanceOf(other), STAKE);
        assertEq(staking.stakeOf(modelId, other), 2 * STAKE);
    }

    /// @dev graphprotocol/contracts#347: stake below the minimum that escapes it.
    function test_unbonding_leaves_the_minimum_or_nothing() public {
        vm.startPrank(other);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeTooSmall.selector, STAKE - 1, STAKE));
        staking.requestUnbond(modelId, 2 * STAKE + 1);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeTooSmall.selector, 1, STAKE));
        staking.requestUnbond(modelId, 3 * STAKE - 1);
        staking.requestUnbond(modelId, 2 * STAKE);
        staking.requestUnbond(modelId, STAKE);
        assertEq(staking.activeStake(modelId, other), 0);
        assertEq(staking.stakeAt(modelId, 1, staking.epoch()), 3 * STAKE);
        assertEq(staking.stakeAt(modelId, 1, staking.epoch() + 1), 0);
    }

    /// @dev dymension#1065, subquery/network-contracts#159.
    function test_repeated_tiny_requests_block_nothing() public {
        for (uint256 i; i < 50; ++i) {
            unbond(other, 1);
            pass(1);
        }
        unbond(other, STAKE - 50);
        assertEq(staking.unbondingOf(modelId, other).length, 8);
        unbond(other, 2 * STAKE);
        assertEq(staking.slash(modelId, other, 1), 3 * STAKE / 10_000 + 7, "seven of 1 wei lost all");
        pass(params.unbondingBlocks);
        assertEq(withdraw(other), 3 * STAKE - 3 * STAKE / 10_000 - 7);
        assertEq(staking.stakeOf(modelId, other), 0);
    }

    function test_a_request_that_joins_another_leaves_no_earlier() public {
        for (uint256 i; i < 8; ++i) {
            unbond(other, i + 1);
            pass(10);
        }
        uint256 due = vm.getBlockNumber() + params.unbondingBlocks;
        vm.expectEmit(address(staking));
        emit Staking.UnbondingRequested(modelId, other, 100, due);
        unbond(other, 100);
        vm.roll(due - 11);
        assertEq(withdraw(other), 1 + 2 + 3 + 4 + 5 + 6 + 7);
        vm.roll(due - 1);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        withdraw(other);
        vm.roll(due);
        assertEq(withdraw(other), 108);
    }

    /// @dev After withdrawals the newest request may lie anywhere in the queue.
    function test_requests_join_the_newest_wherever_it_lies() public {
        uint256 first = vm.getBlockNumber();
        for (uint256 i; i < 8; ++i) {
            unbond(other, 1);
            pass(10);
        }
        vm.roll(first + params.unbondingBlocks);
        withdraw(other);
        unbond(other, 1);
        uint256 due = vm.getBlockNumber() + params.unbondingBlocks;
        unbond(other, 1);
        vm.roll(due - 1);
        assertEq(withdraw(other), 7);
        vm.roll(due);
        assertEq(withdraw(other), 2);
    }

    function test_a_shorter_unbonding_time_frees_no_earlier_request() public {
        for (uint256 i; i < 8; ++i) {
            unbond(other, 1);
        }
        uint256 due = vm.getBlockNumber() + params.unbondingBlocks;
        params.unbondingBlocks -= 20;
        parameters.publish(params);
        unbond(other, 1);
        vm.roll(due - 1);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        withdraw(other);
        vm.roll(due);
        assertEq(withdraw(other), 9);
    }

    // --- slashing ---

    function test_only_courts_slash() public {
        vm.prank(newcomer);
        vm.expectRevert(abi.encodeWithSelector(Courts.NotCourt.selector, newcomer));
        staking.slash(modelId, operator, 1);
    }

    function test_no_slash_takes_more_than_everything() public {
        vm.expectRevert(abi.encodeWithSelector(Staking.SlashTooLarge.selector, 10_001, 10_000));
        staking.slash(modelId, operator, 10_001);
    }

    /// @dev keep-core#1625: the slash of an empty stake reverted.
    function test_slashing_what_is_empty_takes_nothing_and_does_not_revert() public {
        assertEq(staking.slash(modelId, newcomer, 10_000), 0, "stranger");
        assertEq(staking.slash(bytes32("nothing"), operator, 10_000), 0, "unknown pool");
        assertEq(staking.slash(modelId, operator, 0), 0, "nothing of it");
        assertEq(staking.slash(modelId, operator, 10_000), STAKE);
        assertEq(staking.slash(modelId, operator, 10_000), 0, "slashed before");
        assertEq(received, STAKE);
        assertEq(token.balanceOf(address(this)), STAKE);
    }

    /// @dev celo-monorepo#2887: withdrawing in front of a slash.
    function test_withdrawing_in_front_of_a_slash_does_not_help() public {
        unbond(operator, STAKE);
        pass(params.unbondingBlocks - 1);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        withdraw(operator);
        assertEq(staking.slash(modelId, operator, 5000), STAKE / 2);
        pass(1);
        assertEq(withdraw(operator), STAKE / 2);
    }

    /// @dev graphprotocol/contracts#347.
    function test_below_the_minimum_an_operator_is_not_drawn_but_slashable() public {
        staking.slash(modelId, operator, 1);
        uint48 next = nextEpoch();
        assertEq(staking.stakeAt(modelId, 0, next), 0);
        for (uint256 beta; beta < 20; ++beta) {
            address[] memory drawn = draw(next, beta, 2);
            assertEq(drawn.length, 1);
            assertEq(drawn[0], other);
        }
        uint256 rest = staking.stakeOf(modelId, operator);
        assertEq(staking.slash(modelId, operator, 10_000), rest);
    }

    function test_fully_slashed_requests_keep_no_places() public {
        for (uint256 i; i < 8; ++i) {
            unbond(other, 1 + i % 2 * STAKE / 8);
        }
        staking.slash(modelId, other, 1);
        assertEq(staking.unbondingOf(modelId, other).length, 4, "requests of 1 wei are gone");
        staking.slash(modelId, other, 10_000);
        assertEq(staking.unbondingOf(modelId, other).length, 0);
        fund(other, STAKE);
        vm.prank(other);
        staking.increaseStake(modelId, STAKE);
        unbond(other, STAKE);
        pass(params.unbondingBlocks);
        assertEq(withdraw(other), STAKE);
    }

    /// @dev Pro rata: of every part the same share, rounded up, whatever the operator moved before.
    function testFuzz_slash_takes_its_share_of_every_part(uint256[3] memory leaving, uint256 bps) public {
        bps = bound(bps, 0, 10_000);
        uint256 expected;
        uint256[4] memory left;
        for (uint256 i; i < 3; ++i) {
            leaving[i] = bound(leaving[i], 1, STAKE / 2);
            unbond(other, leaving[i]);
            pass(1);
            left[i] = leaving[i] - _share(leaving[i], bps);
            expected += _share(leaving[i], bps);
        }
        uint256 active = staking.activeStake(modelId, other);
        expected += _share(active, bps);
        left[3] = active - _share(active, bps);

        assertEq(staking.slash(modelId, other, bps), expected, "taken");
        assertEq(received, expected, "reported");
        assertEq(token.balanceOf(address(this)), expected, "paid to the bank");
        assertEq(staking.activeStake(modelId, other), left[3], "active");
        assertEq(staking.stakeOf(modelId, other), left[0] + left[1] + left[2] + left[3], "left");
        pass(params.unbondingBlocks - 3);
        if (left[0] > 0) assertEq(withdraw(other), left[0], "oldest");
        pass(2);
        if (left[1] + left[2] > 0) assertEq(withdraw(other), left[1] + left[2], "rest");
        uint48 next = nextEpoch();
        assertEq(staking.stakeAt(modelId, 1, next), left[3] < STAKE ? 0 : left[3], "weight");
    }

    /// @dev Tokens are neither minted nor lost, and the tree weighs what the operators have.
    function testFuzz_holds_exactly_what_it_owes(uint256 seed) public {
        for (uint256 step; step < 40; ++step) {
            seed = uint256(keccak256(abi.encode(seed)));
            address who = (seed >> 8) % 2 == 0 ? operator : other;
            uint256 active = staking.activeStake(modelId, who);
            uint256 action = seed % 5;
            if (action == 0) {
                fund(who, seed >> 192);
                vm.prank(who);
                staking.increaseStake(modelId, seed >> 192);
            } else if (action == 1 && active > STAKE) {
                unbond(who, 1 + (seed >> 16) % (active - STAKE));
            } else if (action == 2) {
                staking.slash(modelId, who, (seed >> 16) % 300);
            } else if (action == 3) {
                pass((seed >> 16) % params.unbondingBlocks);
            } else {
                vm.prank(who);
                try staking.withdrawUnbonded(modelId) {} catch {}
            }
            uint256 owed = staking.stakeOf(modelId, operator) + staking.stakeOf(modelId, other);
            assertEq(token.balanceOf(address(staking)), owed);
            assertEq(token.balanceOf(address(this)), received);
            uint48 next = staking.epoch() + 1;
            assertEq(
                staking.totalStakeAt(modelId, next),
                staking.stakeAt(modelId, 0, next) + staking.stakeAt(modelId, 1, next)
            );
        }
    }

    // --- seats ---

    function test_a_seat_in_use_cannot_be_released() public {
        vm.expectRevert(abi.encodeWithSelector(Staking.SeatInUse.selector, operator));
        staking.releaseSeat(modelId, operator);
        unbond(operator, STAKE);
        uint256 idleFrom = (uint256(staking.epoch()) + 1) * params.epochBlocks;
        vm.roll(idleFrom + params.unbondingBlocks - 1);
        vm.expectRevert(abi.encodeWithSelector(Staking.SeatInUse.selector, operator));
        staking.releaseSeat(modelId, operator);
        vm.roll(idleFrom + params.unbondingBlocks);
        staking.releaseSeat(modelId, operator);
        vm.expectRevert(abi.encodeWithSelector(Keys.NotRegistered.selector, operator));
        staking.releaseSeat(modelId, operator);
    }

    function test_who_stakes_again_in_time_keeps_the_seat() public {
        staking.slash(modelId, operator, 5000);
        pass(params.unbondingBlocks);
        fund(operator, STAKE);
        vm.prank(operator);
        staking.increaseStake(modelId, STAKE);
        pass(params.unbondingBlocks);
        vm.expectRevert(abi.encodeWithSelector(Staking.SeatInUse.selector, operator));
        staking.releaseSeat(modelId, operator);
    }

    function test_past_draws_name_the_former_holder_of_a_seat() public {
        uint48 past = staking.epoch();
        bytes32 drawsBefore = _draws(past);
        (address[] memory listed, uint256[] memory weights) = staking.stakesAt(modelId, past);
        address[3] memory holders = [newcomer, account(1), account(2)];
        address former = operator;
        for (uint256 i; i < 3; ++i) {
            unbond(former, STAKE);
            pass(2 * params.unbondingBlocks);
            staking.releaseSeat(modelId, former);
            join(holders[i], STAKE);
            assertEq(staking.operatorAt(modelId, 0), holders[i]);
            former = holders[i];
        }
        assertEq(staking.poolSize(modelId), 2);
        assertEq(_draws(past), drawsBefore);
        (address[] memory later, uint256[] memory laterWeights) = staking.stakesAt(modelId, past);
        assertEq(abi.encode(later, laterWeights), abi.encode(listed, weights));
        uint48 now_ = nextEpoch();
        (later,) = staking.stakesAt(modelId, now_);
        assertEq(later[0], account(2));
        address[] memory drawn = draw(now_, 0, 2);
        assertTrue(drawn[0] == account(2) || drawn[1] == account(2));
    }

    function test_who_lost_its_seat_keeps_its_money() public {
        staking.slash(modelId, operator, 5000);
        pass(2 * params.unbondingBlocks);
        staking.releaseSeat(modelId, operator);
        join(newcomer, STAKE);
        assertEq(staking.slash(modelId, operator, 2000), STAKE / 10, "still slashable");
        unbond(operator, STAKE * 4 / 10);
        pass(params.unbondingBlocks);
        assertEq(withdraw(operator), STAKE * 4 / 10);
        assertEq(staking.stakeAt(modelId, 0, staking.epoch()), STAKE, "the newcomer's");
    }

    function test_who_lost_its_seat_may_come_back_with_what_it_has() public {
        staking.slash(modelId, operator, 5000);
        pass(2 * params.unbondingBlocks);
        staking.releaseSeat(modelId, operator);
        join(newcomer, STAKE);
        join(operator, STAKE / 2);
        assertEq(staking.activeStake(modelId, operator), STAKE);
        assertEq(staking.operatorAt(modelId, 2), operator);
        assertEq(staking.stakeAt(modelId, 2, nextEpoch()), STAKE);
    }

    // --- draws ---

    function test_no_draw_of_an_epoch_to_come() public {
        uint48 now_ = staking.epoch();
        vm.expectRevert(abi.encodeWithSelector(Staking.EpochInFuture.selector, now_ + 1, now_));
        draw(now_ + 1, 0, 1);
    }

    /// @dev kleros-v2#1148: a draw that silently selects nobody.
    function testFuzz_no_draw_silently_selects_nobody(uint256 beta, uint96[4] memory stakes) public {
        for (uint256 i; i < stakes.length; ++i) {
            join(account(i), bound(stakes[i], STAKE, 1e6 * STAKE));
        }
        uint48 now_ = nextEpoch();
        address[] memory drawn = draw(now_, beta, 1);
        assertEq(drawn.length, 1);
        assertGt(staking.activeStake(modelId, drawn[0]), 0);
    }

    function test_a_draw_is_shorter_where_there_are_too_few() public {
        uint48 now_ = staking.epoch();
        assertEq(draw(now_, 1, 5).length, 2);
        assertEq(draw(now_, 1, 0).length, 0);
        assertEq(draw(now_, 1, type(uint256).max).length, 2);
        assertEq(draw(0, 1, 5).length, 0, "before anyone staked");
        address[] memory excluded = new address[](2);
        excluded[0] = operator;
        assertEq(staking.draw(modelId, now_, "beta", 2, excluded).length, 1);
        assertEq(staking.draw(modelId, now_, "beta", 2, excluded)[0], other);
        excluded[1] = other;
        assertEq(staking.draw(modelId, now_, "beta", 2, excluded).length, 0);
        assertEq(staking.draw("nothing", now_, "beta", 1, excluded).length, 0, "unknown pool");
    }

    function test_draws_equal_those_of_python() public {
        string memory json = vm.readFile("tests/vectors/draw.json");
        vm.chainId(vm.parseJsonUint(json, ".chain_id"));
        staking = Staking(vm.parseJsonAddress(json, ".staking"));
        deployCodeTo("Staking.sol:Staking", abi.encode(token, parameters), address(staking));
        uint48 epoch = uint48(vm.parseJsonUint(json, ".epoch"));
        assertEq(staking.epochSeed(epoch), vm.parseJsonBytes32(json, ".epoch_seed"), "epoch seed");
        staking.registerModel(spec());
        address[] memory operators = vm.parseJsonAddressArray(json, ".operators");
        uint256[] memory stakes = vm.parseJsonUintArray(json, ".stakes");
        vm.roll((uint256(epoch) - 1) * params.epochBlocks);
        for (uint256 i; i < operators.length; ++i) {
            join(operators[i], stakes[i] == 0 ? STAKE : stakes[i]);
            if (stakes[i] == 0) unbond(operators[i], STAKE);
        }
        nextEpoch();
        (address[] memory listed, uint256[] memory weights) = staking.stakesAt(modelId, epoch);
        assertEq(abi.encode(listed, weights), abi.encode(operators, stakes), "pool");
        uint256 draws;
        for (; vm.keyExistsJson(json, _at(draws, "")); ++draws) {
            address[] memory drawn = staking.draw(
                modelId,
                epoch,
                vm.parseJsonBytes(json, _at(draws, ".beta")),
                vm.parseJsonUint(json, _at(draws, ".count")),
                vm.parseJsonAddressArray(json, _at(draws, ".excluded"))
            );
            assertEq(drawn, vm.parseJsonAddressArray(json, _at(draws, ".drawn")), "drawn");
        }
        assertGt(draws, 3);
    }

    /// @dev Pearson's chi-square over 3,000 draws against the stakes, before and after a slash: kleros-v2#2107 were
    /// penalties that did not change the odds. 5 degrees of freedom: 20.5 is exceeded by chance once in 1,000.
    function test_draw_frequency_is_proportional_to_stake() public {
        for (uint256 i = 2; i < 6; ++i) {
            join(account(i), (i + 2) * STAKE);
        }
        assertLt(_chiSquareMillionths(nextEpoch(), 3000), 20_500_000);
        staking.slash(modelId, account(5), 8000);
        staking.slash(modelId, account(3), 5000);
        assertLt(_chiSquareMillionths(nextEpoch(), 3000), 20_500_000);
    }

    function test_gas_of_draws_and_registrations_in_a_pool_of_1000() public {
        for (uint256 i = 2; i < 1000; ++i) {
            fund(account(i), STAKE);
            _cool();
            vm.prank(account(i));
            uint256 before = gasleft();
            staking.registerOperator(modelId, STAKE, "http://operator");
            assertLt(before - gasleft(), 450_000, "registration");
        }
        uint48 first = nextEpoch();
        _assertDrawGas(first, 160_000);
        bytes32 drawsBefore = _draws(first);
        for (uint256 i = 2; i < 102; ++i) {
            address who = account(2 + i * 7919 % 998);
            fund(who, 1);
            _cool();
            vm.prank(who);
            uint256 before = gasleft();
            staking.increaseStake(modelId, 1);
            assertLt(before - gasleft(), 350_000, "increase");
            nextEpoch();
        }
        _assertDrawGas(first, 400_000);
        _assertDrawGas(first + 50, 400_000);
        _assertDrawGas(staking.epoch() - 3, 200_000);
        assertEq(_draws(first), drawsBefore);
    }

    /// @dev The dearest of all: every node of the tree is new.
    function test_gas_of_the_first_registration_in_a_pool() public {
        ModelSpec memory second = spec();
        second.vocabSize = 9;
        bytes32 secondId = staking.registerModel(second);
        fund(newcomer, STAKE);
        _cool();
        vm.prank(newcomer);
        uint256 before = gasleft();
        staking.registerOperator(secondId, STAKE, "http://operator");
        assertLt(before - gasleft(), 420_000);
    }

    // --- tokens ---

    /// @dev Gitcoin judging #422.
    function test_fee_on_transfer_tokens_are_refused() public {
        FeeToken fee = new FeeToken();
        staking = deployStaking(address(fee));
        staking.registerModel(spec());
        fee.mint(address(this), STAKE);
        fee.approve(address(staking), STAKE);
        vm.expectRevert(Staking.TransferFeeNotSupported.selector);
        staking.registerOperator(modelId, STAKE, "");
    }

    function test_no_call_can_be_reentered() public {
        ReentrantToken evil = new ReentrantToken();
        staking = deployStaking(address(evil));
        staking.registerModel(spec());
        evil.mint(address(evil), 10 * STAKE);
        evil.act(address(evil), abi.encodeCall(evil.approve, (address(staking), type(uint256).max)));
        evil.act(address(staking), abi.encodeCall(staking.registerOperator, (modelId, 4 * STAKE, "")));
        evil.act(address(staking), abi.encodeCall(staking.requestUnbond, (modelId, STAKE)));
        pass(params.unbondingBlocks);
        bytes[6] memory calls = [
            abi.encodeCall(staking.registerOperator, (modelId, STAKE, "")),
            abi.encodeCall(staking.registerScheduler, (STAKE, "", VRF_KEY)),
            abi.encodeCall(staking.increaseStake, (modelId, STAKE)),
            abi.encodeCall(staking.requestUnbond, (modelId, STAKE)),
            abi.encodeCall(staking.withdrawUnbonded, (modelId)),
            abi.encodeCall(staking.slash, (modelId, address(evil), 1))
        ];
        for (uint256 i; i < 5; ++i) {
            evil.arm(address(staking), calls[i]);
            bytes4 reentrant = ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector;
            vm.expectRevert(reentrant);
            evil.act(address(staking), calls[1]);
            vm.expectRevert(reentrant);
            evil.act(address(staking), calls[2]);
            vm.expectRevert(reentrant);
            evil.act(address(staking), calls[4]);
            vm.expectRevert(reentrant);
            staking.slash(modelId, address(evil), 1);
        }
        assertEq(staking.stakeOf(modelId, address(evil)), 4 * STAKE);
        assertEq(evil.balanceOf(address(staking)), 4 * STAKE);
    }

    // --- helpers ---

    function _expectInvalid(ModelSpec memory s) private {
        vm.expectRevert(Staking.ModelInvalid.selector);
        staking.registerModel(s);
    }

    function _share(uint256 amount, uint256 bps) private pure returns (uint256) {
        return (amount * bps + 9_999) / 10_000;
    }

    function _draws(uint48 epoch) private view returns (bytes32 digest) {
        for (uint256 beta; beta < 8; ++beta) {
            digest = keccak256(abi.encode(digest, draw(epoch, beta, 5)));
        }
    }

    function _cool() private {
        vm.cool(address(staking));
        vm.cool(address(token));
        vm.cool(address(parameters));
    }

    function _assertDrawGas(uint48 epoch, uint256 limit) private {
        for (uint256 beta; beta < 8; ++beta) {
            _cool();
            uint256 before = gasleft();
            address[] memory drawn = draw(epoch, beta, 5);
            assertLt(before - gasleft(), limit, "draw of 5");
            assertEq(drawn.length, 5);
        }
    }

    function _chiSquareMillionths(uint48 epoch, uint256 samples) private view returns (uint256 sum) {
        (address[] memory operators, uint256[] memory weights) = staking.stakesAt(modelId, epoch);
        uint256[] memory counts = new uint256[](operators.length);
        for (uint256 beta; beta < samples; ++beta) {
            address drawn = draw(epoch, beta, 1)[0];
            uint256 i;
            while (operators[i] != drawn) ++i;
            ++counts[i];
        }
        uint256 total = staking.totalStakeAt(modelId, epoch);
        for (uint256 i; i < counts.length; ++i) {
            uint256 expected = 1e6 * samples * weights[i] / total;
            uint256 observed = 1e6 * counts[i];
            uint256 difference = observed > expected ? observed - expected : expected - observed;
            sum += difference * difference / expected;
        }
    }

    function _at(uint256 i, string memory field) private pure returns (string memory) {
        return string.concat(".draws[", vm.toString(i), "]", field);
    }
}
