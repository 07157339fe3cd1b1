// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Reads the storage formats of rows: 1 bf16, 2 fp16, 3 fp32, little-endian.
library Rows {
    uint8 internal constant BF16 = 1;
    uint8 internal constant FP16 = 2;
    uint8 internal constant FP32 = 3;

    error DtypeUnknown(uint8 dtype);
    error RowSizeWrong(uint256 length, uint256 expected);
    error ValueNotFinite(uint256 index);

    function itemSize(uint8 dtype) internal pure returns (uint256) {
        if (dtype == BF16 || dtype == FP16) return 2;
        if (dtype == FP32) return 4;
        revert DtypeUnknown(dtype);
    }

    function checkSize(bytes calldata row, uint8 dtype, uint256 hiddenSize) internal pure {
        uint256 expected = hiddenSize * itemSize(dtype);
        if (row.length != expected) revert RowSizeWrong(row.length, expected);
    }

    /// @notice Sign, biased exponent (a subnormal's counts as 1) and 24-bit significand of element `i`.
    function decode(bytes calldata row, uint8 dtype, uint256 i)
        internal
        pure
        returns (bool negative, uint256 exponent, uint256 significand)
    {
        uint256 bits;
        uint256 mantissaBits;
        uint256 exponentMask;
        if (dtype == FP32) {
            assembly ("memory-safe") {
                let w := calldataload(add(row.offset, shl(2, i)))
                bits := or(or(byte(0, w), shl(8, byte(1, w))), or(shl(16, byte(2, w)), shl(24, byte(3, w))))
            }
            (mantissaBits, exponentMask) = (23, 0xff);
        } else {
            assembly ("memory-safe") {
                let w := calldataload(add(row.offset, shl(1, i)))
                bits := or(byte(0, w), shl(8, byte(1, w)))
            }
            (mantissaBits, exponentMask) =
                dtype == BF16 ? (uint256(7), uint256(0xff)) : (uint256(10), uint256(0x1f));
        }
        unchecked {
            exponent = (bits >> mantissaBits) & exponentMask;
            if (exponent == exponentMask) revert ValueNotFinite(i);
            significand = bits & ((1 << mantissaBits) - 1);
            if (exponent == 0) exponent = 1;
            else significand |= 1 << mantissaBits;
            significand <<= 23 - mantissaBits;
            negative = bits >> (dtype == FP32 ? 31 : 15) == 1;
        }
    }

    /// @notice Exponent bias plus the 23 fraction bits of the significand: value = significand * 2^(exponent - this).
    function scale(uint8 dtype) internal pure returns (uint256) {
        return (dtype == FP16 ? 15 : 127) + 23;
    }
}
