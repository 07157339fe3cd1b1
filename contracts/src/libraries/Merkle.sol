// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Tags} from "./Tags.sol";

/// @notice The trees of docs/protocol.md section 1: RFC 9162 shape, an odd last node is promoted unchanged.
library Merkle {
    error ProofInvalid();

    function node(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.NODE, left, right));
    }

    /// @notice Root that `leaf` at `index` of `count` leaves implies; reverts if the proof has the wrong length.
    function rootFrom(bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata proof)
        internal
        pure
        returns (bytes32 root)
    {
        if (index >= count) revert ProofInvalid();
        root = leaf;
        uint256 last = count - 1;
        uint256 used;
        while (last > 0) {
            if (index & 1 == 1) {
                if (used == proof.length) revert ProofInvalid();
                root = node(proof[used++], root);
            } else if (index < last) {
                if (used == proof.length) revert ProofInvalid();
                root = node(root, proof[used++]);
            }
            index >>= 1;
            last >>= 1;
        }
        if (used != proof.length) revert ProofInvalid();
    }

    /// @notice Root of the chunk tree over the little-endian bytes of one row.
    function chunkRoot(bytes calldata row) internal pure returns (bytes32) {
        uint256 count = (row.length + Tags.CHUNK_BYTES - 1) / Tags.CHUNK_BYTES;
        if (count == 0) revert ProofInvalid();
        bytes32[] memory level = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            uint256 end = (i + 1) * Tags.CHUNK_BYTES;
            if (end > row.length) end = row.length;
            level[i] = keccak256(abi.encodePacked(Tags.CHUNK, row[i * Tags.CHUNK_BYTES:end]));
        }
        while (count > 1) {
            uint256 half = count >> 1;
            for (uint256 i; i < half; ++i) {
                level[i] = node(level[2 * i], level[2 * i + 1]);
            }
            if (count & 1 == 1) level[half] = level[count - 1];
            count = half + (count & 1);
        }
        return level[0];
    }
}
