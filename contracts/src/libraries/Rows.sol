// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Reads the storage formats of rows: 1 bf16, 2 fp16, 3 fp32, little-endian.
/// @dev A row is handled by words of 32 bytes, each made of big-endian lanes of 16 or 32 bits, the first value on top.
/// Arithmetic on whole words stays within the lanes, because all but a sign bit is used.
library Rows {
    uint8 internal constant BF16 = 1;
    uint8 internal constant FP16 = 2;
    uint8 internal constant FP32 = 3;

    /// @notice Finite values in memory. Each 32 bytes of the row are two words here: the significands with their sign
    /// (two's complement, hidden bit included), and the biased exponents less 1, where a subnormal's counts as 1.
    /// Lanes past the end of the row are 0 in the first word. `top` is the largest of the exponents less 1.
    struct Row {
        uint8 dtype;
        uint256 length;
        uint256 top;
        uint256[] words;
    }

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

    /// @return lane bits per value
    /// @return fractionBits
    /// @return special biased exponent of NaN and Inf, all ones
    function layout(uint8 dtype) internal pure returns (uint256 lane, uint256 fractionBits, uint256 special) {
        if (dtype == BF16) return (16, 7, 255);
        if (dtype == FP16) return (16, 10, 31);
        if (dtype == FP32) return (32, 23, 255);
        revert DtypeUnknown(dtype);
    }

    /// @notice Reverts unless the row is whole values, all of them finite. Those whose biased exponent is `ceiling` or
    /// more become the power of two with that exponent.
    function load(bytes calldata row, uint8 dtype, uint256 ceiling) internal pure returns (Row memory) {
        checkSize(row, dtype, row.length / itemSize(dtype));
        (uint256 lane, uint256 fractionBits, uint256 special) = layout(dtype);
        // A count of words: the quotient is meant to be whole.
        // slither-disable-next-line divide-before-multiply
        uint256 count = (row.length + 31) / 32;
        uint256[] memory words = new uint256[](2 * count);
        uint256 top = _read(row, words, lane) >> fractionBits;
        if (top == special) revert ValueNotFinite(_firstNotFinite(words, lane, fractionBits, special));
        unchecked {
            uint256 ones = _signs(lane) >> (lane - 1);
            if (top >= ceiling) {
                top = ceiling;
                for (uint256 i = count; i < 2 * count; ++i) {
                    words[i] = _limit(words[i], (ones * ceiling) << fractionBits, lane);
                }
            }
            _split(words, lane, fractionBits, ones * special);
            return Row(dtype, row.length, top == 0 ? 0 : top - 1, words);
        }
    }

    /// @notice Has the row no NaN and no infinity? Reverts unless it is whole values.
    function isFinite(bytes calldata row, uint8 dtype) internal pure returns (bool) {
        checkSize(row, dtype, row.length / itemSize(dtype));
        (uint256 lane, uint256 fractionBits, uint256 special) = layout(dtype);
        // As above.
        // slither-disable-next-line divide-before-multiply
        uint256[] memory words = new uint256[](2 * ((row.length + 31) / 32));
        return _read(row, words, lane) >> fractionBits != special;
    }

    function _signs(uint256 lane) private pure returns (uint256) {
        return lane == 16
            ? 0x8000800080008000800080008000800080008000800080008000800080008000
            : 0x8000000080000000800000008000000080000000800000008000000080000000;
    }

    /// @dev Puts the row's lanes into the second half of `words`.
    /// @return magnitude The largest bits without sign of any value; such bits order as the values do.
    function _read(bytes calldata row, uint256[] memory words, uint256 lane)
        private
        pure
        returns (uint256 magnitude)
    {
        uint256 signs = _signs(lane);
        uint256 largest; // in each lane
        assembly ("memory-safe") {
            let size := shl(5, mload(words))
            let end := add(add(words, 32), size)
            let at := sub(end, shr(1, size))
            calldatacopy(at, row.offset, row.length)
            for {} lt(at, end) { at := add(at, 32) } {
                let word := mload(at)
                let low := 0x00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff
                word := or(and(shr(8, word), low), shl(8, and(word, low)))
                if eq(lane, 32) {
                    low := 0x0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff
                    word := or(and(shr(16, word), low), shl(16, and(word, low)))
                }
                mstore(at, word)
                word := and(word, not(signs))
                let kept := and(sub(or(largest, signs), word), signs) // lanes where largest >= word
                kept := sub(kept, shr(sub(lane, 1), kept)) // all bits below the sign
                largest := xor(word, and(xor(largest, word), kept))
            }
        }
        for (; largest != 0; largest <<= lane) {
            uint256 value = largest >> (256 - lane);
            if (value > magnitude) magnitude = value;
        }
    }

    /// @dev Each lane's magnitude becomes at most that in `limits`.
    function _limit(uint256 word, uint256 limits, uint256 lane) private pure returns (uint256) {
        uint256 signs = _signs(lane);
        unchecked {
            uint256 above = ((word | signs) - limits) & signs; // lanes that are at least the limit
            above -= above >> (lane - 1);
            return (word & ~above) | (limits & above);
        }
    }

    /// @dev Turns each word of the second half into its two words, from the start on: word i of n is read before the
    /// two at 2i and 2i + 1 <= n + i are written.
    function _split(uint256[] memory words, uint256 lane, uint256 fractionBits, uint256 exponentBits)
        private
        pure
    {
        uint256 signs = _signs(lane);
        assembly ("memory-safe") {
            let shift := sub(lane, 1)
            let to := add(words, 32)
            let end := add(to, shl(5, mload(words)))
            for { let at := shr(1, add(to, end)) } lt(at, end) { at := add(at, 32) } {
                let word := mload(at)
                let exponents := and(shr(fractionBits, word), exponentBits)
                // Adding all bits below the sign sets the sign of the lanes that are not 0.
                let positive := and(add(exponents, not(signs)), signs)
                exponents := sub(exponents, shr(shift, positive))
                let significands := sub(and(word, not(signs)), shl(fractionBits, exponents))
                // Two's complement of the negative ones but for -0: invert the lane, add 1.
                let negative := and(word, and(add(significands, not(signs)), signs))
                let one := shr(shift, negative)
                mstore(to, add(xor(significands, sub(shl(1, negative), one)), one))
                mstore(add(to, 32), exponents)
                to := add(to, 64)
            }
        }
    }

    /// @dev Only called for a row that has such a value, before it is split.
    function _firstNotFinite(uint256[] memory words, uint256 lane, uint256 fractionBits, uint256 special)
        private
        pure
        returns (uint256 index)
    {
        uint256 perWord = 256 / lane;
        while (true) {
            uint256 word = words[words.length / 2 + index / perWord] << (index % perWord * lane);
            if ((word >> (256 - lane + fractionBits)) & special == special) return index;
            ++index;
        }
    }
}
