// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Tags} from "../../src/libraries/Tags.sol";
import {SettlementRecord} from "../../src/Types.sol";

/// @notice Builds the trees and leaves of docs/protocol.md, level by level; the contracts only ever verify them.
library Trees {
    function root(bytes32[] memory leaves) internal pure returns (bytes32) {
        bytes32[] memory level = leaves;
        while (level.length > 1) {
            level = _parents(level);
        }
        return level[0];
    }

    function proof(bytes32[] memory leaves, uint256 index) internal pure returns (bytes32[] memory siblings) {
        bytes32[] memory level = leaves;
        bytes32[] memory found = new bytes32[](64);
        uint256 used;
        while (level.length > 1) {
            uint256 sibling = index ^ 1;
            if (sibling < level.length) found[used++] = level[sibling];
            level = _parents(level);
            index >>= 1;
        }
        siblings = new bytes32[](used);
        for (uint256 i; i < used; ++i) {
            siblings[i] = found[i];
        }
    }

    function chunkRoot(bytes memory row) internal pure returns (bytes32) {
        bytes32[] memory leaves = new bytes32[]((row.length + 127) / 128);
        for (uint256 i; i < leaves.length; ++i) {
            uint256 size = row.length - i * 128 < 128 ? row.length - i * 128 : 128;
            bytes memory chunk = new bytes(size);
            for (uint256 j; j < size; ++j) {
                chunk[j] = row[i * 128 + j];
            }
            leaves[i] = keccak256(abi.encodePacked(Tags.CHUNK, chunk));
        }
        return root(leaves);
    }

    function rowLeaf(uint32 position, uint32 token, bytes memory row) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.ROW, position, token, chunkRoot(row)));
    }

    function matrixLeaf(uint32 token, bytes memory row) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.MATRIX_ROW, token, chunkRoot(row)));
    }

    function tokenLeaf(uint32 position, uint32 token) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.TOKEN, position, token));
    }

    function boundaryRoot(uint16 boundary, uint8 dtype, uint32 d, uint32 rows, bytes32 tree)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encodePacked(Tags.BOUNDARY, boundary, dtype, d, rows, tree));
    }

    function roundLeaf(bytes32 commitmentDigest, address operator) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.ROUND_LEAF, commitmentDigest, operator));
    }

    function recordLeaf(SettlementRecord memory record) internal pure returns (bytes32) {
        return keccak256(bytes.concat(bytes1(Tags.SETTLEMENT_LEAF), abi.encode(record)));
    }

    function _parents(bytes32[] memory level) private pure returns (bytes32[] memory above) {
        above = new bytes32[]((level.length + 1) / 2);
        for (uint256 i; i < above.length; ++i) {
            above[i] = 2 * i + 1 < level.length
                ? keccak256(abi.encodePacked(Tags.NODE, level[2 * i], level[2 * i + 1]))
                : level[2 * i];
        }
    }
}
