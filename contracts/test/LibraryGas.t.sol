// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test, console} from "forge-std/Test.sol";
import {Libraries} from "./helpers/Libraries.sol";

/// @notice Gas ceilings of the arithmetic over rows, for d of SmolLM2-135M and of an 8B model. Calldata is not in it.
contract LibraryGasTest is Test {
    Libraries private libraries = Libraries(deployCode("Libraries.sol:Libraries"));

    function test_gas_of_both_logits_of_a_token_fraud() public view {
        uint256[2][3] memory ceilings = [
            uint256[2]([uint256(270_000), 1_800_000]),
            [uint256(270_000), 1_800_000],
            [uint256(360_000), 2_650_000]
        ];
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            for (uint256 k; k < 2; ++k) {
                uint256 size = k == 0 ? 576 : 4096;
                bytes memory call = abi.encodeCall(
                    Libraries.logitsQ24,
                    (_row(dtype, size, 1), dtype, _row(dtype, size, 2), _row(dtype, size, 3), dtype)
                );
                _assertGas("logits", dtype, size, call, ceilings[dtype - 1][k]);
            }
        }
    }

    function test_gas_of_one_comparison() public view {
        uint256[2][3] memory ceilings = [
            uint256[2]([uint256(180_000), 1_200_000]),
            [uint256(180_000), 1_200_000],
            [uint256(235_000), 1_650_000]
        ];
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            for (uint256 k; k < 2; ++k) {
                uint256 size = k == 0 ? 576 : 4096;
                bytes memory call = abi.encodeCall(
                    Libraries.diverges, (_row(dtype, size, 1), _row(dtype, size, 2), dtype, 1)
                );
                _assertGas("diverges", dtype, size, call, ceilings[dtype - 1][k]);
            }
        }
    }

    function test_gas_of_a_jury_vote() public view {
        uint256[2][3] memory ceilings = [
            uint256[2]([uint256(330_000), 2_270_000]),
            [uint256(330_000), 2_270_000],
            [uint256(420_000), 3_000_000]
        ];
        for (uint8 dtype = 1; dtype <= 3; ++dtype) {
            for (uint256 k; k < 2; ++k) {
                uint256 size = k == 0 ? 576 : 4096;
                bytes memory call = abi.encodeCall(
                    Libraries.divergesFromBoth,
                    (_row(dtype, size, 1), _row(dtype, size, 2), _row(dtype, size, 3), dtype, 1)
                );
                _assertGas("both", dtype, size, call, ceilings[dtype - 1][k]);
            }
        }
    }

    function test_gas_of_a_chunk_root() public view {
        for (uint256 k; k < 2; ++k) {
            uint256 size = k == 0 ? 576 : 4096;
            bytes memory call = abi.encodeCall(Libraries.chunkRoot, (_row(1, size, 1)));
            _assertGas("chunkRoot", 1, size, call, k == 0 ? 8_000 : 27_000);
        }
    }

    function test_gas_of_a_proof_in_a_vocabulary_of_128k() public view {
        bytes memory call = abi.encodeCall(Libraries.rootFrom, (0, 99_999, 128_000, new bytes32[](17)));
        _assertGas("rootFrom", 0, 128_000, call, 13_500);
    }

    function _assertGas(string memory name, uint8 dtype, uint256 size, bytes memory call, uint256 ceiling)
        private
        view
    {
        uint256 before = gasleft();
        (bool ok,) = address(libraries).staticcall(call);
        uint256 used = before - gasleft();
        console.log(name, dtype, size, used);
        assertTrue(ok);
        assertLe(used, ceiling, name);
    }

    /// @dev Values between 1/8 and 8 in size, of either sign.
    function _row(uint8 dtype, uint256 size, uint256 seed) private pure returns (bytes memory row) {
        row = new bytes(size * (dtype == 3 ? 4 : 2));
        for (uint256 i; i < size; ++i) {
            uint256 bits = uint256(keccak256(abi.encode(seed, i)));
            if (dtype == 1) bits = (bits & 0x8000) + 0x3e00 + (bits & 0x7fff) % 0x300;
            else if (dtype == 2) bits = (bits & 0x8000) + 0x3000 + (bits & 0x7fff) % 0x1800;
            else bits = (bits & 0x80000000) + 0x3e000000 + (bits & 0x7fffffff) % 0x3000000;
            for (uint256 k; k < row.length / size; ++k) {
                row[i * (row.length / size) + k] = bytes1(uint8(bits >> (8 * k)));
            }
        }
    }
}
