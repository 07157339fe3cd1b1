// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";

/// @notice Fenwick tree of stakes whose nodes keep their history by epoch, so that a draw of any past epoch can be
/// repeated. Updates and draws touch log2(CAPACITY) nodes.
library SumTree {
    using Checkpoints for Checkpoints.Trace208;

    uint256 internal constant CAPACITY = 1024;

    struct Tree {
        mapping(uint256 node => Checkpoints.Trace208) nodes;
        mapping(uint256 index => Checkpoints.Trace208) weights;
    }

    /// @notice Give leaf `index` the weight `weight` from `epoch` on. Epochs may not go back.
    function set(Tree storage tree, uint256 index, uint48 epoch, uint208 weight) internal {
        uint208 old = tree.weights[index].latest();
        if (old == weight) return;
        tree.weights[index].push(epoch, weight);
        for (uint256 i = index + 1; i <= CAPACITY; i += i & (~i + 1)) {
            Checkpoints.Trace208 storage node = tree.nodes[i];
            node.push(epoch, node.latest() + weight - old);
        }
    }

    function total(Tree storage tree, uint48 epoch) internal view returns (uint256) {
        return tree.nodes[CAPACITY].upperLookupRecent(epoch);
    }

    function weightAt(Tree storage tree, uint256 index, uint48 epoch) internal view returns (uint256) {
        return tree.weights[index].upperLookupRecent(epoch);
    }

    /// @notice Index of the leaf whose interval of the cumulative weights holds `point` < total.
    function find(Tree storage tree, uint48 epoch, uint256 point) internal view returns (uint256 index) {
        for (uint256 step = CAPACITY >> 1; step > 0; step >>= 1) {
            uint256 sum = tree.nodes[index + step].upperLookupRecent(epoch);
            if (sum <= point) {
                point -= sum;
                index += step;
            }
        }
    }
}
