// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice A random value of a future block. A user fixes the block when it commits; whoever shows the value later,
/// and when, does not change it. A block whose value nobody showed in time is replaced by the user with a new one.
interface IRandomness {
    event Known(uint256 indexed blockNumber, bytes32 value);

    error AlreadyKnown(uint256 blockNumber);
    error TooEarly(uint256 blockNumber);
    error Expired(uint256 blockNumber);
    error WrongHeader(uint256 blockNumber, bytes32 expected);
    error NotKnown(uint256 blockNumber);

    /// @notice Keep the value of a block of the last 256. Anyone may.
    function poke(uint256 blockNumber, bytes calldata header) external;

    /// @notice The value that the block's RLP header proves; nothing is kept.
    function prove(uint256 blockNumber, bytes calldata header) external view returns (bytes32);

    /// @notice The kept value of a block.
    function valueOf(uint256 blockNumber) external view returns (bytes32);

    function known(uint256 blockNumber) external view returns (bool);

    /// @notice The block is past, out of the blockhash opcode's reach, and nobody kept its value.
    function expired(uint256 blockNumber) external view returns (bool);
}
