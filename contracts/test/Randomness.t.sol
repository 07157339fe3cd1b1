// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Randomness} from "../src/Randomness.sol";
import {IRandomness} from "../src/interfaces/IRandomness.sol";
import {BlockHeader} from "../src/libraries/BlockHeader.sol";
import {Headers} from "./helpers/Headers.sol";

contract RandomnessTest is Test {
    uint256 private constant TARGET = 1002;
    uint256 private constant HORIZON = 256;

    Randomness private randomness = Randomness(deployCode("Randomness.sol:Randomness"));
    bytes private header = Headers.build(TARGET, "mix");

    function setUp() public {
        vm.roll(1000);
    }

    function test_a_value_is_unknown_until_it_is_shown() public {
        assertFalse(randomness.known(TARGET));
        assertFalse(randomness.expired(TARGET));
        vm.expectRevert(abi.encodeWithSelector(IRandomness.NotKnown.selector, TARGET));
        randomness.valueOf(TARGET);
    }

    function test_the_block_must_be_over() public {
        vm.roll(TARGET);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.TooEarly.selector, TARGET));
        randomness.poke(TARGET, header);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.TooEarly.selector, TARGET));
        randomness.prove(TARGET, header);
        assertFalse(randomness.expired(TARGET));
    }

    function test_a_header_of_another_block_is_refused() public {
        _reach(header);
        bytes memory other = Headers.build(TARGET, "another mix");
        vm.expectRevert(abi.encodeWithSelector(IRandomness.WrongHeader.selector, TARGET, keccak256(header)));
        randomness.poke(TARGET, other);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.WrongHeader.selector, TARGET, keccak256(header)));
        randomness.prove(TARGET, other);
    }

    function test_a_proof_keeps_nothing() public {
        _reach(header);
        assertEq(randomness.prove(TARGET, header), "mix");
        assertFalse(randomness.known(TARGET));
    }

    function test_the_mix_hash_of_the_block_is_kept_once_whoever_shows_it() public {
        _reach(header);
        vm.prank(makeAddr("anyone"));
        vm.expectEmit(address(randomness));
        emit IRandomness.Known(TARGET, "mix");
        randomness.poke(TARGET, header);
        assertTrue(randomness.known(TARGET));
        assertEq(randomness.valueOf(TARGET), "mix");
        vm.expectRevert(abi.encodeWithSelector(IRandomness.AlreadyKnown.selector, TARGET));
        randomness.poke(TARGET, header);
    }

    function test_the_last_block_of_the_horizon_still_counts() public {
        vm.roll(TARGET + HORIZON);
        vm.setBlockhash(TARGET, keccak256(header));
        assertFalse(randomness.expired(TARGET));
        randomness.poke(TARGET, header);
        assertEq(randomness.valueOf(TARGET), "mix");
    }

    function test_past_the_horizon_a_value_that_nobody_kept_is_expired() public {
        vm.roll(TARGET + HORIZON + 1);
        assertTrue(randomness.expired(TARGET));
        vm.expectRevert(abi.encodeWithSelector(IRandomness.Expired.selector, TARGET));
        randomness.poke(TARGET, header);
    }

    function test_a_kept_value_never_expires() public {
        _reach(header);
        randomness.poke(TARGET, header);
        vm.roll(TARGET + 100 * HORIZON);
        assertFalse(randomness.expired(TARGET));
        assertEq(randomness.valueOf(TARGET), "mix");
    }

    function test_bytes_that_are_no_header_are_refused() public {
        bytes[4] memory broken;
        broken[0] = new bytes(600); // single zero bytes, no list
        broken[1] = Headers.build(TARGET, "mix");
        broken[1][3] = 0xc0; // a nested list as the first field
        broken[2] = hex"c0"; // too short
        broken[3] = new bytes(600); // a list whose first field claims more than there is
        (broken[3][0], broken[3][3], broken[3][4], broken[3][5]) = (0xf9, 0xb9, 0xff, 0xff);
        for (uint256 i; i < broken.length; ++i) {
            _reach(broken[i]);
            vm.expectRevert(BlockHeader.HeaderInvalid.selector);
            randomness.poke(TARGET, broken[i]);
        }
    }

    function testFuzz_any_mix_hash_is_read_back(bytes32 mix, uint32 number) public {
        vm.assume(mix != 0);
        header = Headers.build(number, mix);
        _reach(header);
        randomness.poke(TARGET, header);
        assertEq(randomness.valueOf(TARGET), mix);
    }

    function _reach(bytes memory of_) private {
        vm.roll(TARGET + 1);
        vm.setBlockhash(TARGET, keccak256(of_));
    }
}
