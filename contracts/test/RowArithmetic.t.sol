// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Rows} from "../src/libraries/Rows.sol";
import {Libraries} from "./helpers/Libraries.sol";

/// @notice The definitions of docs/protocol.md, one value at a time.
library SlowRows {
    function statistics(bytes memory a, bytes memory b, uint8 dtype)
        internal
        pure
        returns (uint256 difference, uint256 norm)
    {
        uint256 size = a.length / itemSize(dtype);
        uint256 top;
        for (uint256 i; i < size; ++i) {
            (, uint256 x,) = decode(a, dtype, i);
            (, uint256 y,) = decode(b, dtype, i);
            if (x > top) top = x;
            if (y > top) top = y;
        }
        for (uint256 i; i < size; ++i) {
            int256 x = _aligned(a, dtype, i, top);
            int256 y = _aligned(b, dtype, i, top);
            difference += uint256((x - y) * (x - y));
            norm += uint256(x * x + y * y);
        }
    }

    function logitQ24(bytes memory row, uint8 rowDtype, bytes memory weights, uint8 weightDtype)
        internal
        pure
        returns (int256 sum)
    {
        for (uint256 i; i < row.length / itemSize(rowDtype); ++i) {
            sum += _q40(row, rowDtype, i) * _q40(weights, weightDtype, i);
        }
        return sum >> 56;
    }

    /// @notice Sign, biased exponent (at least 1) and the 24-bit significand; 0 for what is not finite.
    function decode(bytes memory row, uint8 dtype, uint256 i)
        internal
        pure
        returns (bool negative, uint256 exponent, uint256 significand)
    {
        uint256 size = itemSize(dtype);
        uint256 bits;
        for (uint256 k = size; k > 0; --k) {
            bits = bits * 256 + uint8(row[i * size + k - 1]);
        }
        uint256 fractionBits = dtype == 1 ? 7 : dtype == 2 ? 10 : 23;
        negative = bits >= 2 ** (8 * size - 1);
        exponent = bits / 2 ** fractionBits % (dtype == 2 ? 32 : 256);
        significand = bits % 2 ** fractionBits;
        if (exponent == 0) exponent = 1;
        else significand += 2 ** fractionBits;
        significand *= 2 ** (23 - fractionBits);
    }

    function itemSize(uint8 dtype) internal pure returns (uint256) {
        return dtype == 3 ? 4 : 2;
    }

    function _aligned(bytes memory row, uint8 dtype, uint256 i, uint256 top) private pure returns (int256) {
        (bool negative, uint256 exponent, uint256 significand) = decode(row, dtype, i);
        int256 value = top - exponent >= 24 ? int256(0) : int256(significand / 2 ** (top - exponent));
        return negative ? -value : value;
    }

    function _q40(bytes memory row, uint8 dtype, uint256 i) private pure returns (int256) {
        (bool negative, uint256 exponent, uint256 significand) = decode(row, dtype, i);
        uint256 bias = dtype == 2 ? 15 : 127;
        uint256 value;
        if (exponent + 17 >= bias + 88) value = 2 ** 104;
        else if (exponent + 17 >= bias) value = significand * 2 ** (exponent + 17 - bias);
        else value = significand / 2 ** (bias - exponent - 17);
        if (value > 2 ** 104) value = 2 ** 104;
        return negative ? -int256(value) : int256(value);
    }
}

/// @notice The word-wise code gives the integers of the definitions for rows of any kind.
contract RowArithmeticTest is Test {
    Libraries private libraries = Libraries(deployCode("Libraries.sol:Libraries"));

    function test_a_value_that_is_not_finite_is_refused_wherever_it_is() public {
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            for (uint256 i; i < 37; ++i) {
                bytes memory good = _row(dtype, 37, i, 0);
                bytes memory bad = bytes.concat(good);
                _set(bad, dtype, i, _infinity(dtype) + (i % 3) * (i % 2));
                if (i < 36) _set(bad, dtype, 36, _infinity(dtype));
                bytes memory reason = abi.encodeWithSelector(Rows.ValueNotFinite.selector, i);
                vm.expectRevert(reason);
                libraries.statistics(bad, good, dtype);
                vm.expectRevert(reason);
                libraries.statistics(good, bad, dtype);
                vm.expectRevert(reason);
                libraries.logitQ24(bad, dtype, good, dtype, 37);
                vm.expectRevert(reason);
                libraries.logitQ24(good, dtype, bad, dtype, 37);
            }
        }
    }

    function test_rows_of_the_wrong_size_are_refused() public {
        vm.expectRevert(abi.encodeWithSelector(Rows.RowSizeWrong.selector, 3, 2));
        libraries.statistics(hex"803f80", hex"803f80", 1);
        vm.expectRevert(abi.encodeWithSelector(Rows.RowSizeWrong.selector, 2, 0));
        libraries.statistics(hex"803f", hex"803f", 3);
        vm.expectRevert(abi.encodeWithSelector(Rows.RowSizeWrong.selector, 2, 4));
        libraries.logitQ24(hex"803f", 1, hex"803f803f", 1, 2);
        vm.expectRevert(abi.encodeWithSelector(Rows.RowSizeWrong.selector, 4, 8));
        libraries.logitQ24(hex"803f803f", 1, hex"0000803f", 3, 2);
        vm.expectRevert(abi.encodeWithSelector(Rows.DtypeUnknown.selector, 0));
        libraries.logitQ24(hex"803f", 1, hex"803f", 0, 1);
        vm.expectRevert(abi.encodeWithSelector(Rows.DtypeUnknown.selector, 4));
        libraries.logitQ24(hex"803f", 4, hex"803f", 1, 1);
    }

    /// @dev Every step of the alignment and of the Q40 shift, at both of its ends.
    function test_every_exponent() public view {
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            uint256 step = _infinity(dtype) / (dtype == 2 ? 31 : 255);
            uint256 count = dtype == 2 ? 31 : 255;
            bytes memory row = new bytes(3 * count * SlowRows.itemSize(dtype));
            bytes memory ones = new bytes(row.length);
            for (uint256 i; i < count; ++i) {
                _set(row, dtype, 3 * i, i * step + (i % 2) * _sign(dtype));
                _set(row, dtype, 3 * i + 1, i * step + 1);
                _set(row, dtype, 3 * i + 2, (i + 1) * step - 1);
                for (uint256 k; k < 3; ++k) {
                    _set(ones, dtype, 3 * i + k, (dtype == 2 ? 15 : 127) * step);
                }
                bytes memory value = new bytes(SlowRows.itemSize(dtype));
                bytes memory one = new bytes(value.length);
                _set(one, dtype, 0, (dtype == 2 ? 15 : 127) * step);
                for (uint256 k; k < 3; ++k) {
                    for (uint256 j; j < value.length; ++j) {
                        value[j] = row[(3 * i + k) * value.length + j];
                    }
                    _assertLogit(value, dtype, one, dtype);
                    _assertStatistics(value, one, dtype);
                }
            }
            _assertLogit(row, dtype, ones, dtype);
            _assertStatistics(row, ones, dtype);
        }
    }

    function test_the_longest_rows_of_the_largest_values_do_not_overflow() public view {
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            bytes memory a = new bytes(8192 * SlowRows.itemSize(dtype));
            bytes memory b = new bytes(a.length);
            for (uint256 i; i < 8192; ++i) {
                _set(a, dtype, i, _infinity(dtype) - 1);
                _set(b, dtype, i, _infinity(dtype) - 1 + _sign(dtype));
            }
            (uint256 difference, uint256 norm) = libraries.statistics(a, b, dtype);
            (, uint256 exponent, uint256 value) = SlowRows.decode(a, dtype, 0);
            assertEq(difference, 8192 * 4 * value * value);
            assertEq(norm, 8192 * 2 * value * value);
            assertTrue(libraries.diverges(a, b, dtype, 2 ** 41 - 1));
            assertFalse(libraries.diverges(a, b, dtype, 2 ** 41));
            int256 q40 = dtype == 2 ? int256(value << (exponent + 2)) : int256(2 ** 104);
            assertEq(libraries.logitQ24(a, dtype, b, dtype, 8192), -8192 * q40 * q40 >> 56);
        }
    }

    function testFuzz_statistics(uint256 dtypeSeed, uint256 size, uint256 seed, uint256 kind) public view {
        uint8 dtype = uint8(bound(dtypeSeed, 1, 3));
        size = bound(size, 0, 70);
        bytes memory a = _row(dtype, size, seed, kind % 4);
        bytes memory b = _row(dtype, size, kind % 5 == 0 ? seed : ~seed, kind / 4 % 4);
        _assertStatistics(a, b, dtype);
    }

    function testFuzz_logits(uint256 dtypes, uint256 size, uint256 seed, uint256 kind) public view {
        (uint8 rowDtype, uint8 weightDtype) = (uint8(1 + dtypes % 3), uint8(1 + dtypes / 3 % 3));
        size = bound(size, 0, 70);
        bytes memory row = _row(rowDtype, size, seed, kind % 4);
        bytes memory weights = _row(weightDtype, size, ~seed, kind / 4 % 4);
        _assertLogit(row, rowDtype, weights, weightDtype);
        (int256 first, int256 second) = libraries.logitsQ24(row, rowDtype, weights, weights, weightDtype);
        assertEq(first, second, "the row stays as it was");
    }

    /// @dev ABI padding and what follows the arguments are the caller's to choose.
    function testFuzz_what_follows_a_row_in_calldata_does_not_matter(uint256 size, uint256 seed) public view {
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            size = bound(size, 1, 40);
            bytes memory row = _row(dtype, size, seed, 0);
            uint256 padding = (32 - row.length % 32) % 32;
            bytes memory garbage = new bytes(padding);
            for (uint256 i; i < padding; ++i) {
                garbage[i] = bytes1(uint8(uint256(keccak256(abi.encode(seed, i))) | 0x7f));
            }
            bytes memory tail = bytes.concat(abi.encode(row.length), row, garbage);
            bytes memory head = abi.encode(96, 96 + tail.length, dtype);
            _assertSame(
                bytes.concat(Libraries.statistics.selector, head, tail, tail, garbage),
                abi.encodeCall(Libraries.statistics, (row, row, dtype))
            );
            head = abi.encode(160, dtype, 160 + tail.length, dtype, size);
            _assertSame(
                bytes.concat(Libraries.logitQ24.selector, head, tail, tail, garbage),
                abi.encodeCall(Libraries.logitQ24, (row, dtype, row, dtype, size))
            );
            head = abi.encode(32);
            _assertSame(
                bytes.concat(Libraries.chunkRoot.selector, head, tail, garbage),
                abi.encodeCall(Libraries.chunkRoot, (row))
            );
        }
    }

    function _assertStatistics(bytes memory a, bytes memory b, uint8 dtype) private view {
        (uint256 difference, uint256 norm) = libraries.statistics(a, b, dtype);
        (uint256 slowDifference, uint256 slowNorm) = SlowRows.statistics(a, b, dtype);
        assertEq(difference, slowDifference, "D");
        assertEq(norm, slowNorm, "N");
    }

    function _assertLogit(bytes memory row, uint8 rowDtype, bytes memory weights, uint8 weightDtype)
        private
        view
    {
        uint256 size = row.length / SlowRows.itemSize(rowDtype);
        assertEq(
            libraries.logitQ24(row, rowDtype, weights, weightDtype, size),
            SlowRows.logitQ24(row, rowDtype, weights, weightDtype),
            "logit"
        );
    }

    function _assertSame(bytes memory call, bytes memory plainCall) private view {
        (bool ok, bytes memory result) = address(libraries).staticcall(call);
        (bool plainOk, bytes memory plainResult) = address(libraries).staticcall(plainCall);
        assertTrue(ok && plainOk);
        assertEq(result, plainResult);
    }

    /// @dev Finite values: kind 0 any bits, 1 exponents near 1.0, 2 subnormal and zero, 3 the edges of the format.
    function _row(uint8 dtype, uint256 size, uint256 seed, uint256 kind)
        private
        pure
        returns (bytes memory row)
    {
        row = new bytes(size * SlowRows.itemSize(dtype));
        uint256 infinity = _infinity(dtype);
        uint256 smallest = infinity / (dtype == 2 ? 31 : 255); // smallest normal value
        for (uint256 i; i < size; ++i) {
            uint256 bits = uint256(keccak256(abi.encode(seed, i)));
            uint256 magnitude = (bits >> 8) % infinity;
            if (kind == 1) {
                magnitude = (dtype == 2 ? 12 : 124) * smallest + magnitude % (6 * smallest);
            } else if (kind == 2) {
                magnitude %= smallest + 2;
            } else if (kind == 3) {
                // Around 2^64, where Q40 saturates; fp16 does not get there.
                uint256 limit = dtype == 2 ? infinity / 2 : 191 * smallest;
                uint256[8] memory edges =
                    [0, 1, smallest - 1, smallest, infinity - 1, limit - 1, limit, limit + 1];
                magnitude = edges[(bits >> 8) % 8];
            }
            _set(row, dtype, i, magnitude + (bits & 1) * _sign(dtype));
        }
    }

    function _set(bytes memory row, uint8 dtype, uint256 i, uint256 bits) private pure {
        uint256 size = SlowRows.itemSize(dtype);
        for (uint256 k; k < size; ++k) {
            row[i * size + k] = bytes1(uint8(bits >> (8 * k)));
        }
    }

    function _infinity(uint8 dtype) private pure returns (uint256) {
        return dtype == 1 ? 0x7f80 : dtype == 2 ? 0x7c00 : 0x7f800000;
    }

    function _sign(uint8 dtype) private pure returns (uint256) {
        return dtype == 3 ? 0x80000000 : 0x8000;
    }
}
