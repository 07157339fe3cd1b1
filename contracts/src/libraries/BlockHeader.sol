// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Reads prevrandao (`mixHash`, field 13 of the header; EIP-4399) out of an RLP block header.
library BlockHeader {
    error HeaderInvalid();

    function mixHash(bytes calldata header) internal pure returns (bytes32 value) {
        // A header is always a list of more than 55 bytes: 0xf7 + length of length.
        if (header.length < 500 || uint8(header[0]) <= 0xf7) revert HeaderInvalid();
        uint256 at = 1 + uint8(header[0]) - 0xf7;
        for (uint256 i; i < 13; ++i) {
            at = _skip(header, at);
        }
        if (at + 33 > header.length || uint8(header[at]) != 0xa0) revert HeaderInvalid();
        value = bytes32(header[at + 1:at + 33]);
    }

    function _skip(bytes calldata data, uint256 at) private pure returns (uint256) {
        if (at >= data.length) revert HeaderInvalid();
        uint256 prefix = uint8(data[at]);
        if (prefix < 0x80) return at + 1;
        if (prefix < 0xb8) return at + 1 + prefix - 0x80;
        if (prefix >= 0xc0) revert HeaderInvalid();
        uint256 lengthBytes = prefix - 0xb7;
        if (lengthBytes > 3 || at + 1 + lengthBytes > data.length) revert HeaderInvalid();
        uint256 length;
        for (uint256 i; i < lengthBytes; ++i) {
            length = (length << 8) | uint8(data[at + 1 + i]);
        }
        return at + 1 + lengthBytes + length;
    }
}
