// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SumTree} from "../../src/libraries/SumTree.sol";

/// @notice Three leaves (0, 511, 1023) with any stakes below 2^64, of which one changes in a later epoch: the draw of
/// either epoch gives the leaf whose interval holds the point, and no other leaf is ever drawn.
contract SumTreeSymbolic {
    using SumTree for SumTree.Tree;

    SumTree.Tree private _tree;

    /// @custom:halmos --loop 12
    function check_a_draw_follows_the_stakes_of_its_epoch(
        uint64 first,
        uint64 middle,
        uint64 last,
        uint64 changed,
        uint256 point
    ) external {
        _tree.set(0, 1, first);
        _tree.set(511, 1, middle);
        _tree.set(1023, 1, last);
        _tree.set(511, 2, changed);
        _checkDraw(1, first, middle, last, point);
        _checkDraw(2, first, changed, last, point);
    }

    function _checkDraw(uint256 epoch, uint256 first, uint256 middle, uint256 last, uint256 point)
        private
        view
    {
        uint256 total = _tree.total(epoch);
        assert(total == first + middle + last);
        if (point >= total) return;
        uint256 expected = point < first ? 0 : point < first + middle ? 511 : 1023;
        assert(_tree.find(epoch, point) == expected);
    }
}
