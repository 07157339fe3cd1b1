// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Randomness} from "../src/Randomness.sol";
import {BlockHeader} from "../src/libraries/BlockHeader.sol";
import {Headers} from "./helpers/Headers.sol";

contract RandomnessTest is Test {
    Randomness private randomness = Randomness(deployCode("Randomness.sol:Randomness", abi.encode(2)));
    uint256 private id;
    uint256 private target;
    bytes private header;

    function setUp() public {
        vm.roll(1000);
        id = randomness.request();
        target = 1002;
        header = Headers.build(target, "mix");
    }

    function test_the_block_is_fixed_at_the_request() public view {
        assertEq(id, 1);
        assertEq(randomness.targetBlock(id), target);
        assertFalse(randomness.known(id));
    }

    function test_unknown_requests_are_refused() public {
        vm.expectRevert(abi.encodeWithSelector(Randomness.RequestUnknown.selector, 9));
        randomness.poke(9, header);
        vm.expectRevert(abi.encodeWithSelector(Randomness.NotKnown.selector, id));
        randomness.value(id);
    }

    function test_the_block_must_be_over() public {
        vm.roll(target);
        vm.expectRevert(abi.encodeWithSelector(Randomness.TooEarly.selector, id, target));
        randomness.poke(id, header);
    }

    function test_a_header_of_another_block_is_refused() public {
        _mine();
        bytes memory other = Headers.build(target, "another mix");
        vm.expectRevert(abi.encodeWithSelector(Randomness.WrongHeader.selector, id, keccak256(header)));
        randomness.poke(id, other);
    }

    function test_the_mix_hash_of_the_block_becomes_the_value_once() public {
        _mine();
        randomness.poke(id, header);
        assertTrue(randomness.known(id));
        assertEq(randomness.value(id), "mix");
        vm.expectRevert(abi.encodeWithSelector(Randomness.AlreadyKnown.selector, id));
        randomness.poke(id, header);
    }

    function test_the_last_block_of_the_horizon_still_counts() public {
        vm.roll(target + 256);
        vm.setBlockhash(target, keccak256(header));
        randomness.poke(id, header);
        assertEq(randomness.value(id), "mix");
    }

    function test_past_the_horizon_the_request_moves_to_a_new_block() public {
        vm.roll(target + 257);
        randomness.poke(id, "");
        assertFalse(randomness.known(id));
        target = block.number + 2;
        assertEq(randomness.targetBlock(id), target);
        header = Headers.build(target, "later mix");
        _mine();
        randomness.poke(id, header);
        assertEq(randomness.value(id), "later mix");
    }

    function test_bytes_that_are_no_header_are_refused() public {
        bytes memory broken = new bytes(600); // single zero bytes, no list
        vm.roll(target + 1);
        vm.setBlockhash(target, keccak256(broken));
        vm.expectRevert(BlockHeader.HeaderInvalid.selector);
        randomness.poke(id, broken);
        broken = Headers.build(target, "mix");
        broken[3] = 0xc0; // a nested list as the first field
        vm.setBlockhash(target, keccak256(broken));
        vm.expectRevert(BlockHeader.HeaderInvalid.selector);
        randomness.poke(id, broken);
    }

    function testFuzz_any_mix_hash_is_read_back(bytes32 mix, uint32 number) public {
        header = Headers.build(number, mix);
        _mine();
        randomness.poke(id, header);
        assertEq(randomness.value(id), mix);
    }

    function _mine() private {
        vm.roll(target + 1);
        vm.setBlockhash(target, keccak256(header));
    }
}
