// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Rows} from "./Rows.sol";

/// @notice The scale-free integer comparison of two rows (docs/protocol.md section 3; verillm/comparator/compare.py).
library Comparator {
    uint256 internal constant FRACTION_BITS = 40;

    /// @return difference D = sum (a-b)^2 and norm N = sum a^2 + sum b^2 of the aligned 24-bit significands.
    function statistics(bytes calldata a, bytes calldata b, uint8 dtype)
        internal
        pure
        returns (uint256 difference, uint256 norm)
    {
        if (a.length != b.length) revert Rows.RowSizeWrong(a.length, b.length);
        uint256 size = a.length / Rows.itemSize(dtype);
        uint256 top = _largestExponent(b, dtype, size, _largestExponent(a, dtype, size, 0));
        unchecked {
            for (uint256 i; i < size; ++i) {
                int256 x = _aligned(a, dtype, i, top);
                int256 y = _aligned(b, dtype, i, top);
                difference += uint256((x - y) * (x - y));
                norm += uint256(x * x + y * y);
            }
        }
    }

    function diverges(bytes calldata a, bytes calldata b, uint8 dtype, uint256 toleranceQ40)
        internal
        pure
        returns (bool)
    {
        (uint256 difference, uint256 norm) = statistics(a, b, dtype);
        return difference << FRACTION_BITS > toleranceQ40 * norm;
    }

    function _largestExponent(bytes calldata row, uint8 dtype, uint256 size, uint256 top)
        private
        pure
        returns (uint256)
    {
        for (uint256 i; i < size; ++i) {
            (, uint256 exponent,) = Rows.decode(row, dtype, i);
            if (exponent > top) top = exponent;
        }
        return top;
    }

    function _aligned(bytes calldata row, uint8 dtype, uint256 i, uint256 top) private pure returns (int256) {
        (bool negative, uint256 exponent, uint256 significand) = Rows.decode(row, dtype, i);
        int256 value = int256(significand >> (top - exponent));
        return negative ? -value : value;
    }
}
