// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {History} from "../src/libraries/History.sol";
import {SumTree} from "../src/libraries/SumTree.sol";

/// @notice Gives the library an outside, so that its reverts can be expected.
contract Tree {
    using SumTree for SumTree.Tree;

    SumTree.Tree private _tree;

    function set(uint256 index, uint256 epoch, uint256 weight) external {
        _tree.set(index, epoch, weight);
    }

    function total(uint256 epoch) external view returns (uint256) {
        return _tree.total(epoch);
    }

    function weightAt(uint256 index, uint256 epoch) external view returns (uint256) {
        return _tree.weightAt(index, epoch);
    }

    function find(uint256 epoch, uint256 point) external view returns (uint256) {
        return _tree.find(epoch, point);
    }
}

contract SumTreeTest is Test {
    uint256 private constant LAST = SumTree.CAPACITY - 1;

    Tree private tree = new Tree();

    function test_a_change_cannot_rewrite_the_past() public {
        tree.set(0, 7, 10);
        vm.expectRevert(abi.encodeWithSelector(History.EpochGoesBack.selector, 6, 7));
        tree.set(0, 6, 11);
        // Nor that of a sum above another leaf.
        vm.expectRevert(abi.encodeWithSelector(History.EpochGoesBack.selector, 6, 7));
        tree.set(1, 6, 11);
    }

    /// @dev lidofinance/core#1755: amounts that were cut to fewer bits without a word.
    function test_a_weight_beyond_96_bits_is_refused_and_not_cut() public {
        uint256 weight = 1 << 96;
        vm.expectRevert(abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, 96, weight));
        tree.set(0, 1, weight);
        tree.set(0, 1, weight - 1);
        vm.expectRevert(abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, 96, weight));
        tree.set(LAST, 1, 1);
        assertEq(tree.total(1), weight - 1);
    }

    function test_an_epoch_beyond_32_bits_is_refused_and_not_cut() public {
        uint256 epoch = 1 << 32;
        vm.expectRevert(abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, 32, epoch));
        tree.set(0, epoch, 1);
    }

    function test_an_empty_tree_weighs_nothing() public view {
        assertEq(tree.total(0), 0);
        assertEq(tree.total(type(uint48).max), 0);
        assertEq(tree.weightAt(LAST, 5), 0);
    }

    function test_first_and_last_leaf_hold_their_intervals() public {
        tree.set(0, 1, 3);
        tree.set(LAST, 1, 2);
        assertEq(tree.total(1), 5);
        for (uint256 point; point < 5; ++point) {
            assertEq(tree.find(1, point), point < 3 ? 0 : LAST);
        }
    }

    function test_the_last_change_within_an_epoch_counts() public {
        tree.set(4, 2, 10);
        tree.set(4, 2, 20);
        tree.set(4, 2, 0);
        tree.set(4, 2, 7);
        assertEq(tree.total(1), 0);
        assertEq(tree.total(2), 7);
    }

    function test_every_epoch_of_a_long_history_can_be_read() public {
        for (uint256 epoch = 1; epoch <= 70; ++epoch) {
            tree.set(2, 3 * epoch, epoch);
        }
        assertEq(tree.weightAt(2, 2), 0);
        for (uint256 epoch = 3; epoch <= 215; ++epoch) {
            assertEq(tree.weightAt(2, epoch), epoch / 3 > 70 ? 70 : epoch / 3);
            assertEq(tree.total(epoch), tree.weightAt(2, epoch));
        }
    }

    /// @dev Against plain lists, for every epoch and both ends of every interval.
    function testFuzz_equals_plain_sums_in_every_epoch(uint256 seed) public {
        uint256 epochs = 12;
        uint256[12] memory leaves = [uint256(0), 1, 2, 3, 7, 8, 255, 256, 511, 512, 1022, LAST];
        uint256[][] memory weights = new uint256[][](epochs + 1);
        weights[0] = new uint256[](leaves.length);
        for (uint256 epoch = 1; epoch <= epochs; ++epoch) {
            weights[epoch] = new uint256[](leaves.length);
            for (uint256 i; i < leaves.length; ++i) {
                weights[epoch][i] = weights[epoch - 1][i];
            }
            for (uint256 change; change < 4; ++change) {
                seed = uint256(keccak256(abi.encode(seed)));
                uint256 i = seed % leaves.length;
                // Small weights, so that neighbours and zeros are common.
                weights[epoch][i] = (seed >> 128) % 4;
                tree.set(leaves[i], epoch, weights[epoch][i]);
            }
        }
        for (uint256 epoch; epoch <= epochs; ++epoch) {
            uint256 sum;
            for (uint256 i; i < leaves.length; ++i) {
                uint256 weight = weights[epoch][i];
                assertEq(tree.weightAt(leaves[i], epoch), weight, "weight");
                if (weight == 0) continue;
                assertEq(tree.find(epoch, sum), leaves[i], "first point");
                sum += weight;
                assertEq(tree.find(epoch, sum - 1), leaves[i], "last point");
            }
            assertEq(tree.total(epoch), sum, "total");
        }
    }
}
