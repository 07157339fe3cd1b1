// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {History} from "./History.sol";

/// @notice Fenwick tree of stakes whose nodes keep their history by epoch, so that a draw of any past epoch can be
/// repeated. Node i > 0 holds the sum of the leaves i - lowbit(i) up to i - 1. A change touches at most
/// log2(CAPACITY) + 1 nodes, a draw log2(CAPACITY).
library SumTree {
    using History for History.Number;

    uint256 internal constant CAPACITY = 1024;

    struct Tree {
        History.Number[CAPACITY + 1] nodes;
    }

    /// @notice Give leaf `index` the weight `weight` from `epoch` >= 1 on. Epochs may not go back.
    function set(Tree storage tree, uint256 index, uint256 epoch, uint256 weight) internal {
        uint256 old = weightAt(tree, index, type(uint256).max);
        if (old == weight) return;
        for (uint256 i = index + 1; i <= CAPACITY; i += _lowbit(i)) {
            History.Number storage node = tree.nodes[i];
            node.set(epoch, node.latest() + weight - old);
        }
    }

    function total(Tree storage tree, uint256 epoch) internal view returns (uint256) {
        return tree.nodes[CAPACITY].at(epoch);
    }

    /// @dev A node's sum less those of its children; on average it has one.
    function weightAt(Tree storage tree, uint256 index, uint256 epoch)
        internal
        view
        returns (uint256 weight)
    {
        uint256 i = index + 1;
        weight = tree.nodes[i].at(epoch);
        for (uint256 step = 1; step < _lowbit(i); step <<= 1) {
            weight -= tree.nodes[i - step].at(epoch);
        }
    }

    /// @notice Index of the leaf whose interval of the cumulative weights holds `point` < total.
    function find(Tree storage tree, uint256 epoch, uint256 point) internal view returns (uint256 index) {
        for (uint256 step = CAPACITY >> 1; step > 0; step >>= 1) {
            uint256 sum = tree.nodes[index + step].at(epoch);
            if (sum <= point) {
                point -= sum;
                index += step;
            }
        }
    }

    function _lowbit(uint256 i) private pure returns (uint256) {
        return i & (~i + 1);
    }
}
