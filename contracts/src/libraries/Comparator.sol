// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Rows} from "./Rows.sol";

/// @notice The scale-free integer comparison of two rows (docs/protocol.md section 3; verillm/comparator/compare.py).
library Comparator {
    uint256 internal constant FRACTION_BITS = 40;

    function load(bytes calldata row, uint8 dtype) internal pure returns (Rows.Row memory) {
        return Rows.load(row, dtype, type(uint256).max);
    }

    /// @notice Of two rows of one dtype.
    /// @return difference D = sum (a-b)^2 and norm N = sum a^2 + sum b^2 of the aligned 24-bit significands.
    /// @dev Neither can overflow: a value is below 2^24, so D < d * 2^50 and N < d * 2^49, 2^63 for d <= 8192; D * 2^40
    /// and N times a 64-bit tolerance stay below 2^127.
    function statistics(Rows.Row memory a, Rows.Row memory b)
        internal
        pure
        returns (uint256 difference, uint256 norm)
    {
        if (a.length != b.length) revert Rows.RowSizeWrong(a.length, b.length);
        (uint256 lane, uint256 fractionBits,) = Rows.layout(a.dtype);
        uint256 top = a.top > b.top ? a.top : b.top;
        uint256[] memory words = a.words;
        uint256[] memory others = b.words;
        uint256 product; // sum ab
        // An aligned value is (significand << (exponent - top + 128)) / divisor, towards zero; a shift below 0 is huge
        // as unsigned and gives 0.
        uint256 divisor = 1 << (128 + fractionBits - 23);
        assembly ("memory-safe") {
            let base := sub(128, top)
            let drop := sub(256, lane)
            let distance := sub(others, words)
            let at := add(words, 32)
            let end := add(at, shl(5, mload(words)))
            for {} lt(at, end) { at := add(at, 64) } {
                let x := mload(at)
                let xExponents := mload(add(at, 32))
                let y := mload(add(at, distance))
                let yExponents := mload(add(add(at, distance), 32))
                // Where both are 0 to the end of the word, nothing is added.
                for {} or(x, y) {} {
                    let u := sdiv(shl(add(shr(drop, xExponents), base), sar(drop, x)), divisor)
                    let v := sdiv(shl(add(shr(drop, yExponents), base), sar(drop, y)), divisor)
                    norm := add(norm, add(mul(u, u), mul(v, v)))
                    product := add(product, mul(u, v))
                    x := shl(lane, x)
                    y := shl(lane, y)
                    xExponents := shl(lane, xExponents)
                    yExponents := shl(lane, yExponents)
                }
            }
            difference := sub(norm, shl(1, product))
        }
    }

    function diverges(Rows.Row memory a, Rows.Row memory b, uint256 toleranceQ40)
        internal
        pure
        returns (bool)
    {
        (uint256 difference, uint256 norm) = statistics(a, b);
        return difference << FRACTION_BITS > toleranceQ40 * norm;
    }
}
