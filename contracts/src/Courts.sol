// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice The contracts that may hold, void and slash. The deployer names them once, and after that has no power.
abstract contract Courts {
    mapping(address court => bool) public isCourt;
    address private immutable _deployer;
    bool private _courtsSet;

    event CourtNamed(address indexed court);

    error NotCourt(address caller);
    error CourtsAlreadySet();

    constructor() {
        _deployer = msg.sender;
    }

    modifier onlyCourt() {
        if (!isCourt[msg.sender]) revert NotCourt(msg.sender);
        _;
    }

    function setCourts(address[] calldata courts) public virtual {
        if (msg.sender != _deployer || _courtsSet) revert CourtsAlreadySet();
        _courtsSet = true;
        for (uint256 i; i < courts.length; ++i) {
            isCourt[courts[i]] = true;
            emit CourtNamed(courts[i]);
        }
    }
}
