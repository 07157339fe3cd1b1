// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Comparator} from "../../src/libraries/Comparator.sol";
import {Rows} from "../../src/libraries/Rows.sol";

/// @notice Rows of up to four values of bf16 or fp16, or two of fp32: every significand, exponent and largest exponent,
/// in the words to which Rows.load turns a row (RowsSymbolic). Symmetry is shown for equal and for different largest
/// exponents: a solver knows uv = vu, but is slow to see that uv stays the same when v has another name.
contract ComparatorSymbolic {
    /// @custom:halmos --loop 5
    function check_symmetric_when_tops_are_equal(
        bytes8 a,
        bytes8 aExponents,
        bytes8 b,
        bytes8 bExponents,
        uint256 top,
        uint8 dtype
    ) external pure {
        _symmetric(_row(a, aExponents, top, dtype), _row(b, bExponents, top, dtype));
    }

    /// @custom:halmos --loop 5
    function check_symmetric_when_tops_differ(
        bytes8 a,
        bytes8 aExponents,
        bytes8 b,
        bytes8 bExponents,
        uint256 lower,
        uint256 higher,
        uint8 dtype
    ) external pure {
        if (lower >= higher) return;
        _symmetric(_row(a, aExponents, lower, dtype), _row(b, bExponents, higher, dtype));
    }

    /// @notice Two values of bf16 or fp16, or one of fp32. Whatever the tolerance, the row does not diverge from itself.
    /// @custom:halmos --loop 5
    function check_a_row_is_at_no_distance_from_itself(bytes4 a, bytes4 exponents, uint256 top, uint8 dtype)
        external
        pure
    {
        (uint256 difference,) =
            Comparator.statistics(_row(a, exponents, top, dtype), _row(a, exponents, top, dtype));
        assert(difference == 0);
    }

    function _symmetric(Rows.Row memory a, Rows.Row memory b) private pure {
        (uint256 difference, uint256 norm) = Comparator.statistics(a, b);
        (uint256 swapped, uint256 sameNorm) = Comparator.statistics(b, a);
        assert(difference == swapped && norm == sameNorm);
    }

    function _row(bytes8 significands, bytes8 exponents, uint256 top, uint8 dtype)
        private
        pure
        returns (Rows.Row memory row)
    {
        row = Rows.Row(dtype, 8, top, new uint256[](2));
        (row.words[0], row.words[1]) = (uint256(bytes32(significands)), uint256(bytes32(exponents)));
    }
}
