// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Domain separation: the first byte of each keccak256 preimage. Mirrors verillm/constants.py.
library Tags {
    uint8 internal constant CHUNK = 0x00;
    uint8 internal constant NODE = 0x01;
    uint8 internal constant ROW = 0x02;
    uint8 internal constant TOKEN = 0x03;
    uint8 internal constant BOUNDARY = 0x04;
    uint8 internal constant JOB = 0x05;
    uint8 internal constant ROUND_LEAF = 0x06;
    uint8 internal constant SETTLEMENT_LEAF = 0x07;
    uint8 internal constant MATRIX_ROW = 0x08;
    uint8 internal constant DRAW = 0x0a;
    uint8 internal constant JURY_VOTE = 0x0c;
    uint8 internal constant EPOCH_SEED = 0x0d;

    uint256 internal constant CHUNK_BYTES = 128;
}
