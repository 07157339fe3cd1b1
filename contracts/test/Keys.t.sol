// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Keys} from "../src/Keys.sol";
import {SCHEDULER_POOL} from "../src/Types.sol";
import {StakingWorld} from "./helpers/StakingWorld.sol";

contract KeysTest is StakingWorld {
    /// @dev The generator of secp256k1, compressed.
    bytes private constant OTHER_KEY =
        hex"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

    address private operator = makeAddr("operator");
    address private other = makeAddr("other");
    address private hot = makeAddr("hot");
    address private newcomer = makeAddr("newcomer");
    address private scheduler = makeAddr("scheduler");
    uint48 private start;

    function setUp() public override {
        super.setUp();
        join(operator, STAKE);
        join(other, STAKE);
        joinScheduler(scheduler);
        start = nextEpoch();
    }

    // --- signers ---

    function test_only_operators_name_signers() public {
        vm.expectRevert(abi.encodeWithSelector(Keys.NotRegistered.selector, newcomer));
        _name(newcomer, hot);
    }

    function test_nobody_is_no_signer() public {
        vm.expectRevert(Keys.SignerInvalid.selector);
        _name(operator, address(0));
    }

    function test_a_signer_is_no_operator_and_belongs_to_one() public {
        vm.expectRevert(abi.encodeWithSelector(Keys.SignerTaken.selector, other, other));
        _name(operator, other);
        vm.expectRevert(abi.encodeWithSelector(Keys.SignerTaken.selector, scheduler, scheduler));
        _name(operator, scheduler);
        _name(operator, hot);
        vm.expectRevert(abi.encodeWithSelector(Keys.SignerTaken.selector, hot, operator));
        _name(other, hot);
        vm.expectRevert(abi.encodeWithSelector(Keys.NotRegistered.selector, hot));
        _name(hot, newcomer);
    }

    function test_a_signer_signs_from_the_next_epoch_on() public {
        _name(operator, hot);
        assertFalse(staking.isSigner(operator, hot, start));
        assertTrue(staking.isSigner(operator, operator, start));
        assertFalse(staking.isSigner(operator, hot, start + 1), "not begun");
        nextEpoch();
        assertTrue(staking.isSigner(operator, hot, start + 1));
        assertFalse(staking.isSigner(other, hot, start + 1), "of another");
        assertFalse(staking.isSigner(operator, newcomer, start + 1), "stranger");
        assertFalse(staking.isSigner(operator, hot, start), "the past stays");
    }

    function test_a_former_key_signs_one_epoch_longer() public {
        _name(operator, hot);
        nextEpoch();
        nextEpoch();
        assertTrue(staking.isSigner(operator, operator, start + 1));
        assertFalse(staking.isSigner(operator, operator, start + 2));
        assertTrue(staking.isSigner(operator, hot, start + 2));
    }

    function test_naming_oneself_ends_a_signer_and_frees_it() public {
        _name(operator, hot);
        nextEpoch();
        _name(operator, operator);
        assertEq(staking.operatorOf(hot), address(0));
        assertEq(staking.operatorOf(operator), operator);
        _name(other, hot);
        nextEpoch();
        nextEpoch();
        assertFalse(staking.isSigner(operator, hot, start + 3));
        assertTrue(staking.isSigner(operator, operator, start + 3));
        assertTrue(staking.isSigner(other, hot, start + 3));
        assertTrue(staking.isSigner(operator, hot, start + 1), "history");
        assertFalse(staking.isSigner(other, hot, start + 1), "history");
    }

    function test_the_last_signer_of_an_epoch_counts() public {
        _name(operator, hot);
        _name(operator, newcomer);
        assertEq(staking.operatorOf(hot), address(0));
        nextEpoch();
        assertEq(staking.signerAt(operator, start + 1), newcomer);
        assertFalse(staking.isSigner(operator, hot, start + 1));
    }

    function test_naming_the_same_signer_again_keeps_it() public {
        _name(operator, hot);
        _name(operator, hot);
        assertEq(staking.operatorOf(hot), operator);
    }

    /// @dev Otherwise whoever sees a registration could block it by naming its sender.
    function test_naming_a_newcomer_does_not_keep_it_out() public {
        _name(operator, newcomer);
        nextEpoch();
        join(newcomer, STAKE);
        assertEq(staking.operatorOf(newcomer), newcomer);
        nextEpoch();
        nextEpoch();
        assertFalse(staking.isSigner(operator, newcomer, start + 3));
        assertTrue(staking.isSigner(newcomer, newcomer, start + 3));
        assertTrue(staking.isSigner(operator, operator, start + 3));
    }

    function test_no_key_before_the_first_epoch() public view {
        assertTrue(staking.isSigner(operator, operator, 0));
        assertFalse(staking.isSigner(operator, hot, 0));
    }

    // --- VRF keys ---

    function test_a_vrf_key_is_a_compressed_point_of_the_curve() public {
        fund(newcomer, STAKE);
        bytes memory tail = new bytes(32);
        _expectRefused("");
        _expectRefused(new bytes(32));
        _expectRefused(new bytes(34));
        _expectRefused(abi.encodePacked(VRF_KEY, uint8(0)));
        _expectRefused(abi.encodePacked(uint8(4), tail));
        _expectRefused(abi.encodePacked(uint8(0), tail));
        _expectRefused(abi.encodePacked(uint8(2), tail)); // 7 has no root
        uint256 field = 0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f;
        _expectRefused(abi.encodePacked(uint8(2), field + 1)); // x = 1 is on the curve, but has one form
        vm.prank(newcomer);
        staking.registerScheduler(STAKE, "", abi.encodePacked(uint8(3), uint256(1)));
    }

    function test_only_schedulers_rotate_vrf_keys() public {
        vm.expectRevert(abi.encodeWithSelector(Keys.NotRegistered.selector, operator));
        vm.prank(operator);
        staking.rotateVrfKey(OTHER_KEY);
        vm.expectRevert(Keys.VrfKeyInvalid.selector);
        vm.prank(scheduler);
        staking.rotateVrfKey(new bytes(33));
    }

    function test_a_scheduler_has_its_key_from_the_epoch_after_registration() public {
        assertEq(staking.vrfKeyAt(scheduler, start - 1), "");
        assertEq(staking.vrfKeyAt(scheduler, start), VRF_KEY);
        assertEq(staking.vrfPublicKey(scheduler), VRF_KEY);
        assertEq(staking.vrfPublicKey(operator), "");
        assertEq(staking.activeStake(SCHEDULER_POOL, scheduler), STAKE);
    }

    function test_vrf_keys_rotate_from_the_next_epoch_and_keep_their_history() public {
        vm.startPrank(scheduler);
        staking.rotateVrfKey(VRF_KEY);
        vm.expectEmit(address(staking));
        emit Keys.VrfKeyChanged(scheduler, OTHER_KEY, start + 1);
        staking.rotateVrfKey(OTHER_KEY);
        vm.stopPrank();
        assertEq(staking.vrfPublicKey(scheduler), VRF_KEY);
        nextEpoch();
        assertEq(staking.vrfPublicKey(scheduler), OTHER_KEY);
        vm.prank(scheduler);
        staking.rotateVrfKey(VRF_KEY);
        nextEpoch();
        assertEq(staking.vrfKeyAt(scheduler, start), VRF_KEY);
        assertEq(staking.vrfKeyAt(scheduler, start + 1), OTHER_KEY);
        assertEq(staking.vrfKeyAt(scheduler, start + 2), VRF_KEY);
    }

    function _name(address operator_, address signer) private {
        vm.prank(operator_);
        staking.setSigner(signer);
    }

    function _expectRefused(bytes memory key) private {
        vm.expectRevert(Keys.VrfKeyInvalid.selector);
        vm.prank(newcomer);
        staking.registerScheduler(STAKE, "", key);
    }
}
