// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice RLP block headers with the fields that a Cancun chain has.
library Headers {
    function build(uint256 number, bytes32 mixHash) internal pure returns (bytes memory) {
        bytes memory head = abi.encodePacked(
            _word(keccak256("parent")),
            _word(keccak256("uncles")),
            uint8(0x94),
            address(0xC0FFEE),
            _word(keccak256("state")),
            _word(keccak256("transactions")),
            _word(keccak256("receipts")),
            hex"b90100",
            new bytes(256)
        );
        bytes memory tail = abi.encodePacked(
            hex"80", // difficulty
            uint8(0x84),
            uint32(number),
            hex"8401c9c380", // gas limit
            hex"80", // gas used
            hex"8465000000", // timestamp
            hex"8568656c6c6f", // extra data
            _word(mixHash),
            hex"880000000000000000",
            hex"07", // base fee, a single byte that is its own encoding
            _word(keccak256("withdrawals")),
            hex"8080",
            _word(keccak256("beacon"))
        );
        return abi.encodePacked(hex"f9", uint16(head.length + tail.length), head, tail);
    }

    function _word(bytes32 value) private pure returns (bytes memory) {
        return abi.encodePacked(uint8(0xa0), value);
    }
}
