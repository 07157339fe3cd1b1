// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Merkle} from "../src/libraries/Merkle.sol";
import {Rows} from "../src/libraries/Rows.sol";
import {SumTree} from "../src/libraries/SumTree.sol";
import {Libraries} from "./helpers/Libraries.sol";
import {Trees} from "./helpers/Trees.sol";

/// @notice Properties of the libraries for any input.
contract FuzzTest is Test {
    Libraries private libraries = Libraries(deployCode("Libraries.sol:Libraries"));

    function testFuzz_a_proof_verifies_its_leaf_and_nothing_else(uint256 count, uint256 index, uint256 salt)
        public
    {
        count = bound(count, 1, 70);
        index = bound(index, 0, count - 1);
        bytes32[] memory leaves = _leaves(count, salt);
        bytes32[] memory proof = Trees.proof(leaves, index);
        bytes32 root = Trees.root(leaves);
        assertEq(libraries.rootFrom(leaves[index], index, count, proof), root);
        assertNotEq(libraries.rootFrom(bytes32(salt), index, count, proof), root, "another leaf");
        if (proof.length > 0) {
            uint256 changed = salt % proof.length;
            proof[changed] = ~proof[changed];
            assertNotEq(libraries.rootFrom(leaves[index], index, count, proof), root, "another sibling");
        }
        vm.expectRevert(Merkle.ProofInvalid.selector);
        libraries.rootFrom(leaves[index], index, count, new bytes32[](proof.length + 1));
        vm.expectRevert(Merkle.ProofInvalid.selector);
        libraries.rootFrom(leaves[index], count, count, proof);
        if (proof.length > 0) {
            vm.expectRevert(Merkle.ProofInvalid.selector);
            libraries.rootFrom(leaves[index], index, count, new bytes32[](proof.length - 1));
        }
    }

    function testFuzz_a_leaf_is_only_at_its_own_index(uint256 count, uint256 index, uint256 other)
        public
        view
    {
        count = bound(count, 2, 70);
        index = bound(index, 0, count - 1);
        other = bound(other, 0, count - 1);
        bytes32[] memory leaves = _leaves(count, 1);
        try libraries.rootFrom(leaves[index], other, count, Trees.proof(leaves, index)) returns (
            bytes32 root
        ) {
            assertEq(root == Trees.root(leaves), other == index);
        } catch {
            assertNotEq(other, index);
        }
    }

    function testFuzz_chunk_roots(bytes calldata row) public {
        if (row.length == 0) {
            vm.expectRevert(Merkle.ProofInvalid.selector);
            libraries.chunkRoot(row);
        } else {
            assertEq(libraries.chunkRoot(row), Trees.chunkRoot(row));
        }
    }

    /// @dev Nine weights of 88 bits fit the tree's 96. They change over three epochs; every epoch's draws stay those of a linear search at that time.
    function testFuzz_stake_intervals_of_any_epoch(
        uint88[9] calldata first,
        uint88[9] calldata second,
        uint256 seed
    ) public {
        for (uint256 i; i < 9; ++i) {
            libraries.setWeight(i * 100, 5, first[i]);
        }
        for (uint256 i; i < 9; i += 2) {
            libraries.setWeight(i * 100, 9, second[i]);
        }
        uint256[] memory weights = new uint256[](9);
        for (uint256 i; i < 9; ++i) {
            weights[i] = first[i];
        }
        assertEq(libraries.totalWeight(4), 0);
        _assertIntervals(5, weights, seed);
        _assertIntervals(8, weights, seed);
        for (uint256 i; i < 9; i += 2) {
            weights[i] = second[i];
        }
        _assertIntervals(9, weights, seed);
    }

    function test_the_tree_ends_at_its_capacity() public {
        libraries.setWeight(SumTree.CAPACITY - 1, 1, 7);
        libraries.setWeight(0, 1, 3);
        assertEq(libraries.totalWeight(1), 10);
        assertEq(libraries.find(1, 2), 0);
        assertEq(libraries.find(1, 3), SumTree.CAPACITY - 1);
    }

    function testFuzz_comparison_is_symmetric_and_a_row_equals_itself(bytes32 a, bytes32 b) public view {
        bytes memory x = _finite(a);
        bytes memory y = _finite(b);
        (uint256 difference, uint256 norm) = libraries.statistics(x, y, 1);
        (uint256 swapped, uint256 sameNorm) = libraries.statistics(y, x, 1);
        assertEq(difference, swapped);
        assertEq(norm, sameNorm);
        assertLe(difference, 2 * norm);
        (difference,) = libraries.statistics(x, x, 1);
        assertEq(difference, 0);
        assertFalse(libraries.diverges(x, x, 1, 0));
    }

    function test_rows_that_are_not_finite_or_of_one_size_are_refused() public {
        vm.expectRevert(abi.encodeWithSelector(Rows.ValueNotFinite.selector, 1));
        libraries.statistics(hex"803f807f", hex"803f803f", 1);
        vm.expectRevert(abi.encodeWithSelector(Rows.RowSizeWrong.selector, 4, 2));
        libraries.statistics(hex"803f803f", hex"803f", 1);
        vm.expectRevert(abi.encodeWithSelector(Rows.DtypeUnknown.selector, 4));
        libraries.statistics(hex"803f", hex"803f", 4);
    }

    function test_logits_in_every_storage_format() public view {
        int256 one = 1 << 24;
        assertEq(libraries.logitQ24(hex"803f", 1, hex"0040", 1, 1), 2 * one, "bf16 1 * 2");
        assertEq(libraries.logitQ24(hex"003c", 2, hex"00c0", 2, 1), -2 * one, "fp16 1 * -2");
        assertEq(libraries.logitQ24(hex"0000c03f", 3, hex"0040", 1, 1), 3 * one, "fp32 1.5 * bf16 2");
        assertEq(libraries.logitQ24(hex"803f803f", 1, hex"004000c0", 1, 2), 0, "2 - 2");
        assertEq(libraries.logitQ24(hex"0100", 2, hex"003c", 2, 1), 1, "smallest fp16: 2^-24");
        assertEq(libraries.logitQ24(hex"0180", 2, hex"003c", 2, 1), -1, "and its negative");
        assertEq(libraries.logitQ24(hex"01000000", 3, hex"7f7f", 1, 1), 0, "too small for Q40");
        assertEq(libraries.logitQ24(hex"7f7f", 1, hex"803f", 1, 1), one << 64, "saturated at 2^64");
        assertEq(libraries.logitQ24(hex"7fff", 1, hex"803f", 1, 1), -(one << 64), "and at -2^64");
    }

    function _assertIntervals(uint48 epoch, uint256[] memory weights, uint256 seed) private view {
        uint256 total;
        for (uint256 i; i < weights.length; ++i) {
            total += weights[i];
        }
        assertEq(libraries.totalWeight(epoch), total);
        if (total == 0) return;
        for (uint256 k; k < 4; ++k) {
            uint256 point = uint256(keccak256(abi.encode(seed, k))) % total;
            uint256 rest = point;
            uint256 index;
            while (rest >= weights[index]) {
                rest -= weights[index++];
            }
            assertEq(libraries.find(epoch, point), index * 100);
        }
    }

    function _leaves(uint256 count, uint256 salt) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            leaves[i] = keccak256(abi.encode(salt, i));
        }
    }

    /// @dev 16 bf16 values; an exponent of all ones is made smaller.
    function _finite(bytes32 bits) private pure returns (bytes memory row) {
        row = abi.encodePacked(bits);
        for (uint256 i = 1; i < 32; i += 2) {
            row[i] &= 0xbf;
        }
    }
}
