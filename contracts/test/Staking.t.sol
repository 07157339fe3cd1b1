// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Staking} from "../src/Staking.sol";
import {ModelSpec} from "../src/Types.sol";
import {Transcripts} from "./helpers/Transcripts.sol";
import {World} from "./helpers/World.sol";

contract StakingTest is World {
    address private newcomer = makeAddr("newcomer");

    function setUp() public override {
        super.setUp();
        fund(newcomer, 10 * STAKE, address(staking));
    }

    function test_a_model_must_have_sizes_that_the_contracts_can_handle() public {
        ModelSpec memory spec = Transcripts.spec(0, 0);
        spec.hiddenSize = 8193;
        vm.expectRevert(Staking.ModelInvalid.selector);
        staking.registerModel(spec);
        spec.hiddenSize = 0;
        vm.expectRevert(Staking.ModelInvalid.selector);
        staking.registerModel(spec);
        (spec.hiddenSize, spec.weightDtype) = (8, 4);
        vm.expectRevert(Staking.ModelInvalid.selector);
        staking.registerModel(spec);
        (spec.weightDtype, spec.rowToleranceQ40) = (1, new uint64[](0));
        vm.expectRevert(Staking.ModelInvalid.selector);
        staking.registerModel(spec);
    }

    function test_registering_a_model_twice_changes_nothing() public {
        assertEq(staking.registerModel(Transcripts.spec(MARGIN_Q24, TOLERANCE_Q40)), modelId);
        assertEq(staking.model(modelId).vocabSize, Transcripts.VOCAB);
    }

    function test_unknown_model_is_refused() public {
        vm.expectRevert(abi.encodeWithSelector(Staking.ModelUnknown.selector, bytes32("nothing")));
        staking.model("nothing");
        vm.expectRevert(abi.encodeWithSelector(Staking.ModelUnknown.selector, bytes32("nothing")));
        staking.registerOperator("nothing", STAKE, "");
    }

    function test_stake_below_the_minimum_is_refused() public {
        vm.prank(newcomer);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeTooSmall.selector, STAKE - 1, params.minStake));
        staking.registerOperator(modelId, STAKE - 1, "");
    }

    function test_an_operator_registers_once() public {
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(Staking.AlreadyRegistered.selector, worker));
        staking.registerOperator(modelId, STAKE, "");
    }

    function test_a_scheduler_key_has_33_bytes() public {
        vm.prank(newcomer);
        vm.expectRevert(Staking.VrfKeyInvalid.selector);
        staking.registerScheduler(STAKE, "", new bytes(32));
    }

    function test_a_stranger_has_nothing_to_unbond() public {
        vm.expectRevert(abi.encodeWithSelector(Staking.NotRegistered.selector, newcomer));
        vm.prank(newcomer);
        staking.requestUnbond(modelId, 1);
    }

    function test_stake_counts_from_the_next_epoch() public {
        uint48 now_ = staking.epoch();
        vm.prank(newcomer);
        staking.registerOperator(modelId, 2 * STAKE, "");
        assertEq(staking.stakeAt(modelId, OPERATORS, now_), 0);
        assertEq(staking.stakeAt(modelId, OPERATORS, now_ + 1), 2 * STAKE);
        assertEq(staking.totalStakeAt(modelId, now_), OPERATORS * STAKE);
        assertEq(staking.totalStakeAt(modelId, now_ + 1), (OPERATORS + 2) * STAKE);
        assertEq(staking.poolSize(modelId), OPERATORS + 1);
        assertEq(staking.operatorAt(modelId, OPERATORS), newcomer);
    }

    function test_more_stake_counts_from_the_next_epoch() public {
        fund(worker, STAKE, address(staking));
        vm.prank(worker);
        staking.increaseStake(modelId, STAKE);
        assertEq(staking.stakeAt(modelId, 0, staking.epoch()), STAKE);
        assertEq(staking.stakeAt(modelId, 0, staking.epoch() + 1), 2 * STAKE);
    }

    function test_unbonding_waits_and_then_pays() public {
        vm.startPrank(worker);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeInsufficient.selector, STAKE + 1, STAKE));
        staking.requestUnbond(modelId, STAKE + 1);
        vm.expectRevert(abi.encodeWithSelector(Staking.StakeInsufficient.selector, 0, STAKE));
        staking.requestUnbond(modelId, 0);
        staking.requestUnbond(modelId, STAKE / 4);
        vm.roll(block.number + params.unbondingBlocks - 1);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        staking.withdrawUnbonded(modelId);
        vm.roll(block.number + 1);
        assertEq(staking.withdrawUnbonded(modelId), STAKE / 4);
        vm.expectRevert(Staking.NothingToWithdraw.selector);
        staking.withdrawUnbonded(modelId);
        vm.stopPrank();
        assertEq(token.balanceOf(worker), STAKE / 4);
        assertEq(staking.stakeOf(modelId, worker), STAKE - STAKE / 4);
    }

    function test_at_most_eight_requests_are_open() public {
        vm.startPrank(worker);
        for (uint256 i; i < 8; ++i) {
            staking.requestUnbond(modelId, 1);
        }
        vm.expectRevert(abi.encodeWithSelector(Staking.TooManyUnbondingRequests.selector, 8));
        staking.requestUnbond(modelId, 1);
    }

    function test_below_the_minimum_an_operator_is_not_drawn_but_slashable() public {
        vm.prank(worker);
        staking.requestUnbond(modelId, 1);
        assertEq(staking.stakeAt(modelId, 0, staking.epoch() + 1), 0);
        vm.prank(address(court));
        assertEq(staking.slash(modelId, worker, 10_000), STAKE);
        assertEq(staking.stakeOf(modelId, worker), 0);
    }

    function test_only_courts_slash() public {
        vm.expectRevert(abi.encodeWithSelector(Staking.NotCourt.selector, address(this)));
        staking.slash(modelId, worker, 1);
    }

    function test_courts_are_named_once_and_by_the_deployer() public {
        vm.expectRevert(Staking.CourtsAlreadySet.selector);
        staking.setCourts(newcomer, newcomer);
        Staking fresh = Staking(deployCode("Staking.sol:Staking", abi.encode(token, params)));
        vm.prank(newcomer);
        vm.expectRevert(Staking.CourtsAlreadySet.selector);
        fresh.setCourts(newcomer, newcomer);
    }

    function test_slashing_a_stranger_takes_nothing() public {
        vm.prank(address(court));
        assertEq(staking.slash(modelId, newcomer, 10_000), 0);
    }

    /// @dev Rounded up, from the active stake first, and from what is leaving if that does not suffice.
    function testFuzz_slash_takes_its_share_of_everything(uint256 leaving, uint256 more, uint256 bps) public {
        leaving = bound(leaving, 1, STAKE);
        more = bound(more, 0, leaving);
        bps = bound(bps, 0, 10_000);
        fund(worker, more, address(staking));
        vm.startPrank(worker);
        staking.requestUnbond(modelId, leaving);
        staking.increaseStake(modelId, more);
        vm.stopPrank();

        uint256 all = STAKE + more;
        uint256 active = all - leaving;
        uint256 expected = (all * bps + 9_999) / 10_000;
        uint256 courtBefore = token.balanceOf(address(court));
        vm.prank(address(court));
        assertEq(staking.slash(modelId, worker, bps), expected, "taken");
        assertEq(token.balanceOf(address(court)) - courtBefore, expected, "paid to the court");
        assertEq(staking.stakeOf(modelId, worker), all - expected, "left");
        assertEq(staking.activeStake(modelId, worker), expected < active ? active - expected : 0, "active");
        vm.roll(block.number + params.unbondingBlocks);
        uint256 fromLeaving = expected > active ? expected - active : 0;
        if (fromLeaving < leaving) {
            vm.prank(worker);
            assertEq(staking.withdrawUnbonded(modelId), leaving - fromLeaving, "leaving");
        }
    }

    function test_a_draw_needs_enough_others() public {
        address[] memory excluded = new address[](5);
        for (uint256 i; i < 5; ++i) {
            excluded[i] = vm.addr(operatorKey(i));
        }
        uint48 epoch = staking.epoch();
        assertEq(staking.draw(modelId, epoch, "beta", 1, excluded)[0], vm.addr(operatorKey(5)));
        vm.expectRevert(abi.encodeWithSelector(Staking.NotEnoughOperators.selector, 1, 2));
        staking.draw(modelId, epoch, "beta", 2, excluded);
        vm.expectRevert(abi.encodeWithSelector(Staking.NotEnoughOperators.selector, 0, 1));
        staking.draw(modelId, 0, "beta", 1, excluded);
    }
}
