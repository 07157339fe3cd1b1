// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {IAccessControl} from "@openzeppelin/contracts/access/IAccessControl.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {TimelockController} from "@openzeppelin/contracts/governance/TimelockController.sol";
import {Parameters} from "../src/Parameters.sol";
import {Timelock} from "../src/Timelock.sol";
import {Params} from "../src/Types.sol";
import {DevParams} from "./helpers/DevParams.sol";

contract ParametersTest is Test {
    uint256 private constant DELAY = 2 days;

    Params private good = DevParams.load();
    address private council = makeAddr("council");
    address private guardian = makeAddr("guardian");
    address private stranger = makeAddr("stranger");
    Timelock private timelock;
    Parameters private parameters;

    function setUp() public {
        address[] memory proposers = new address[](1);
        proposers[0] = council;
        timelock = Timelock(payable(deployCode("Timelock.sol:Timelock", abi.encode(DELAY, proposers))));
        parameters = _deploy(good);
    }

    // --- bounds, by the name of the field ---

    function test_minimum_stake_bond_and_epoch_are_not_zero() public {
        Params memory p = good;
        p.minStake = 0;
        _expectInvalid(p, "minStake");
        p.minStake = 1 << 96;
        _expectInvalid(p, "minStake");
        p = good;
        p.disputeBond = 0;
        _expectInvalid(p, "disputeBond");
        p = good;
        p.epochBlocks = 0;
        _expectInvalid(p, "epochBlocks");
    }

    function test_periods_have_bounds() public {
        Params memory p = good;
        p.randomnessDelayBlocks = 0;
        _expectInvalid(p, "randomnessDelayBlocks");
        p.randomnessDelayBlocks = 128;
        _expectInvalid(p, "randomnessDelayBlocks");
        p = good;
        p.settleBlocks = 2 * p.randomnessDelayBlocks;
        _expectInvalid(p, "settleBlocks");
        p = good;
        p.challengeWindowBlocks = 0;
        _expectInvalid(p, "challengeWindowBlocks");
        p = good;
        p.openingDeadlineBlocks = 0;
        _expectInvalid(p, "openingDeadlineBlocks");
        p = good;
        p.juryCommitBlocks = 0;
        _expectInvalid(p, "juryCommitBlocks");
        p = good;
        p.juryRevealBlocks = 0;
        _expectInvalid(p, "juryRevealBlocks");
        p = good;
        p.appealBlocks = 0;
        _expectInvalid(p, "appealBlocks");
        p = good;
        p.escrowDelayBlocks = p.settleBlocks;
        _expectInvalid(p, "escrowDelayBlocks");
    }

    function test_juries_are_odd_and_bounded() public {
        Params memory p = good;
        p.jurySize = 0;
        _expectInvalid(p, "jurySize");
        p.jurySize = 4;
        _expectInvalid(p, "jurySize");
        (p.jurySize, p.maxAppeals) = (9, 2);
        _expectInvalid(p, "maxAppeals");
        (p.jurySize, p.maxAppeals) = (1, 5);
        _expectInvalid(p, "maxAppeals");
        p.maxAppeals = 256;
        _expectInvalid(p, "maxAppeals");
    }

    function test_counts_have_bounds() public {
        Params memory p = good;
        p.maxAttempts = 0;
        _expectInvalid(p, "maxAttempts");
        p = good;
        p.verifierSpares = 9;
        _expectInvalid(p, "verifierSpares");
        p = good;
        p.openedPositions = 0;
        _expectInvalid(p, "openedPositions");
    }

    function test_slashes_are_shares_and_not_nothing() public {
        Params memory p = good;
        p.slashBpsDivergence = 0;
        _expectInvalid(p, "slashBpsDivergence");
        p.slashBpsDivergence = 10_001;
        _expectInvalid(p, "slashBpsDivergence");
        p = good;
        p.slashBpsTokenFraud = 0;
        _expectInvalid(p, "slashBpsTokenFraud");
        p.slashBpsTokenFraud = 10_001;
        _expectInvalid(p, "slashBpsTokenFraud");
        p = good;
        p.slashBpsWithheld = 0;
        _expectInvalid(p, "slashBpsWithheld");
        p.slashBpsWithheld = 10_001;
        _expectInvalid(p, "slashBpsWithheld");
        p = good;
        p.slashBpsSettlement = 0;
        _expectInvalid(p, "slashBpsSettlement");
        p.slashBpsSettlement = 10_001;
        _expectInvalid(p, "slashBpsSettlement");
        p = good;
        p.slashBpsNoShow = 10_001;
        _expectInvalid(p, "slashBpsNoShow");
    }

    function test_shares_give_away_no_more_than_there_is() public {
        Params memory p = good;
        (p.challengerShareBps, p.jurorShareBps) = (5_000, 5_001);
        _expectInvalid(p, "challengerShareBps");
        p = good;
        p.verifierFeeBps = 10_001;
        _expectInvalid(p, "verifierFeeBps");
        p = good;
        p.schedulerFeeBps = 10_001;
        _expectInvalid(p, "schedulerFeeBps");
    }

    /// @dev Whoever leaves at the start of an epoch may work in rounds until the end of the next one.
    function test_unbonding_outlasts_the_longest_challenge() public {
        uint256 jury = uint256(good.randomnessDelayBlocks) + good.juryCommitBlocks + good.juryRevealBlocks
            + good.appealBlocks;
        uint256 longest = 2 * uint256(good.epochBlocks) + good.settleBlocks + good.challengeWindowBlocks
            + good.openingDeadlineBlocks + (good.maxAppeals + 1) * jury;
        Params memory p = good;
        p.unbondingBlocks = uint32(longest);
        _expectInvalid(p, "unbondingBlocks");
        p.unbondingBlocks = uint32(longest + 1);
        _publish(p);
    }

    /// @dev Rounds that began before are still open.
    function test_no_exit_becomes_shorter_than_rounds_of_the_version_before() public {
        Params memory p = good;
        p.settleBlocks = 2 * uint32(p.randomnessDelayBlocks) + 1;
        p.escrowDelayBlocks = good.settleBlocks;
        _expectInvalid(p, "escrowDelayBlocks");
        p.escrowDelayBlocks = good.settleBlocks + 1;
        uint256 jury = uint256(good.randomnessDelayBlocks) + good.juryCommitBlocks + good.juryRevealBlocks
            + good.appealBlocks;
        uint256 longest = 2 * uint256(good.epochBlocks) + good.settleBlocks + good.challengeWindowBlocks
            + good.openingDeadlineBlocks + (good.maxAppeals + 1) * jury;
        p.unbondingBlocks = uint32(longest);
        _expectInvalid(p, "unbondingBlocks");
        p.unbondingBlocks = uint32(longest + 1);
        _publish(p);
    }

    function test_exits_take_at_most_about_a_year() public {
        Params memory p = good;
        p.unbondingBlocks = uint32(parameters.MAX_UNBONDING_BLOCKS() + 1);
        _expectInvalid(p, "unbondingBlocks");
        p = good;
        p.escrowDelayBlocks = uint32(parameters.MAX_UNBONDING_BLOCKS() + 1);
        _expectInvalid(p, "escrowDelayBlocks");
    }

    function test_a_bad_first_version_cannot_be_deployed() public {
        Params memory p = good;
        p.minStake = 0;
        vm.expectRevert(abi.encodeWithSelector(Parameters.ParameterInvalid.selector, "minStake"));
        this.construct(p);
    }

    function construct(Params calldata p) external returns (Parameters) {
        return new Parameters(address(timelock), guardian, p);
    }

    // --- versions ---

    function test_unknown_versions_are_refused() public {
        vm.expectRevert(abi.encodeWithSelector(Parameters.VersionUnknown.selector, 0));
        parameters.at(0);
        vm.expectRevert(abi.encodeWithSelector(Parameters.VersionUnknown.selector, 2));
        parameters.at(2);
    }

    function test_the_length_of_epochs_is_for_ever() public {
        Params memory p = good;
        p.epochBlocks += 1;
        _expectInvalid(p, "epochBlocks");
    }

    function test_publishing_leaves_earlier_versions_as_they_were() public {
        Params memory p = good;
        (p.minStake, p.slashBpsNoShow) = (5 ether, 7);
        vm.expectEmit(address(parameters));
        emit Parameters.ParametersPublished(2, p);
        _publish(p);
        assertEq(parameters.version(), 2);
        assertEq(abi.encode(parameters.at(1)), abi.encode(good));
        assertEq(abi.encode(parameters.at(2)), abi.encode(p));
        assertEq(abi.encode(parameters.current()), abi.encode(p));
        (uint256 minStake, uint256 unbondingBlocks) = parameters.forStake();
        assertEq(minStake, 5 ether);
        assertEq(unbondingBlocks, p.unbondingBlocks);
        (uint32 version, bool paused, uint256 roundMinStake, uint256 delay, uint256 settle) =
            parameters.forRound();
        assertEq(version, 2);
        assertFalse(paused);
        assertEq(roundMinStake, 5 ether);
        assertEq(delay, p.randomnessDelayBlocks);
        assertEq(settle, p.settleBlocks);
    }

    // --- who may do what ---

    function test_only_the_timelock_publishes_and_only_after_its_delay() public {
        bytes memory call = abi.encodeCall(Parameters.publish, (good));
        address[3] memory others = [council, guardian, stranger];
        for (uint256 i; i < others.length; ++i) {
            vm.prank(others[i]);
            vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, others[i]));
            parameters.publish(good);
        }
        vm.startPrank(council);
        vm.expectRevert(
            abi.encodeWithSelector(TimelockController.TimelockInsufficientDelay.selector, DELAY - 1, DELAY)
        );
        timelock.schedule(address(parameters), 0, call, 0, 0, DELAY - 1);
        vm.expectPartialRevert(TimelockController.TimelockUnexpectedOperationState.selector);
        timelock.execute(address(parameters), 0, call, 0, 0);
        timelock.schedule(address(parameters), 0, call, 0, 0, DELAY);
        vm.warp(block.timestamp + DELAY - 1);
        vm.expectPartialRevert(TimelockController.TimelockUnexpectedOperationState.selector);
        timelock.execute(address(parameters), 0, call, 0, 0);
        assertEq(parameters.version(), 1);
        vm.warp(block.timestamp + 1);
        timelock.execute(address(parameters), 0, call, 0, 0);
        assertEq(parameters.version(), 2);
    }

    function test_the_timelock_has_no_administrator_besides_itself() public {
        bytes32 proposer = timelock.PROPOSER_ROLE();
        address[3] memory others = [address(this), council, stranger];
        for (uint256 i; i < others.length; ++i) {
            vm.prank(others[i]);
            vm.expectPartialRevert(IAccessControl.AccessControlUnauthorizedAccount.selector);
            timelock.grantRole(proposer, stranger);
        }
        vm.prank(stranger);
        vm.expectPartialRevert(IAccessControl.AccessControlUnauthorizedAccount.selector);
        timelock.schedule(address(parameters), 0, "", 0, 0, DELAY);
        vm.prank(council);
        vm.expectPartialRevert(TimelockController.TimelockUnauthorizedCaller.selector);
        timelock.updateDelay(0);
    }

    function test_the_guardian_pauses_and_unpauses_and_nothing_else() public {
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(Parameters.NotGuardian.selector, stranger));
        parameters.setPaused(true);
        bytes memory refusal = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, guardian);
        vm.startPrank(guardian);
        vm.expectRevert(refusal);
        parameters.publish(good);
        vm.expectRevert(refusal);
        parameters.setGuardian(stranger);
        vm.expectRevert(refusal);
        parameters.transferOwnership(guardian);
        vm.expectRevert(refusal);
        parameters.acceptOwnership();
        vm.expectEmit(address(parameters));
        emit Parameters.Paused(true);
        parameters.setPaused(true);
        assertTrue(parameters.paused());
        parameters.setPaused(false);
        assertFalse(parameters.paused());
    }

    function test_the_owner_replaces_the_guardian_and_may_undo_its_pause() public {
        vm.prank(guardian);
        parameters.setPaused(true);
        _execute(abi.encodeCall(Parameters.setGuardian, (stranger)));
        _execute(abi.encodeCall(Parameters.setPaused, (false)));
        assertFalse(parameters.paused());
        vm.prank(guardian);
        vm.expectRevert(abi.encodeWithSelector(Parameters.NotGuardian.selector, guardian));
        parameters.setPaused(true);
        vm.prank(stranger);
        parameters.setPaused(true);
    }

    function test_ownership_moves_in_two_steps() public {
        _execute(abi.encodeCall(Ownable.transferOwnership, (council)));
        assertEq(parameters.owner(), address(timelock));
        assertEq(parameters.pendingOwner(), council);
        vm.prank(council);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, council));
        parameters.publish(good);
        vm.prank(council);
        parameters.acceptOwnership();
        vm.prank(council);
        parameters.publish(good);
        assertEq(parameters.version(), 2);
    }

    // --- helpers ---

    function _deploy(Params memory p) private returns (Parameters) {
        return Parameters(deployCode("Parameters.sol:Parameters", abi.encode(timelock, guardian, p)));
    }

    function _execute(bytes memory call) private {
        vm.startPrank(council);
        timelock.schedule(address(parameters), 0, call, 0, 0, DELAY);
        vm.warp(block.timestamp + DELAY);
        timelock.execute(address(parameters), 0, call, 0, 0);
        vm.stopPrank();
    }

    function _publish(Params memory p) private {
        vm.prank(address(timelock));
        parameters.publish(p);
    }

    function _expectInvalid(Params memory p, string memory field) private {
        vm.expectRevert(abi.encodeWithSelector(Parameters.ParameterInvalid.selector, field));
        _publish(p);
    }
}
