// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";

/// @notice The keys of operators by epoch: a hot key that signs in place of the operator's own (cold) key, and a
/// scheduler's VRF key. A new key counts from the next epoch.
abstract contract Keys {
    using Checkpoints for Checkpoints.Trace160;
    using Checkpoints for Checkpoints.Trace208;

    /// @dev The field of secp256k1 (SEC 2, section 2.4.1).
    uint256 private constant _FIELD = 0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f;

    /// @notice Whose key this address is: an operator's own address, or its latest signer.
    mapping(address key => address operator) public operatorOf;
    mapping(address operator => Checkpoints.Trace160) private _signers;
    /// @dev Value = key: the first epoch of each VRF key.
    mapping(address scheduler => Checkpoints.Trace208) private _rotations;
    mapping(address scheduler => mapping(uint256 fromEpoch => bytes)) private _vrfKeys;

    event SignerChanged(address indexed operator, address indexed signer, uint256 fromEpoch);
    event VrfKeyChanged(address indexed scheduler, bytes vrfKey, uint256 fromEpoch);

    error NotRegistered(address operator);
    error SignerTaken(address signer, address operator);
    error SignerInvalid();
    error VrfKeyInvalid();

    function epoch() public view virtual returns (uint48);

    /// @notice Let `signer` sign commitments and verdicts for the caller from the next epoch on; the caller's own
    /// address ends that. A signer belongs to one operator and is no operator itself.
    function setSigner(address signer) external {
        if (operatorOf[msg.sender] != msg.sender) revert NotRegistered(msg.sender);
        if (signer == address(0)) revert SignerInvalid();
        address owner = operatorOf[signer];
        if (owner != address(0) && owner != msg.sender) revert SignerTaken(signer, owner);
        address former = signerAt(msg.sender, type(uint48).max);
        if (former != msg.sender) delete operatorOf[former];
        operatorOf[signer] = msg.sender;
        _setSigner(msg.sender, signer);
    }

    /// @notice The key that signs for the operator in an epoch: its own address, unless it named another.
    function signerAt(address operator, uint48 epoch_) public view returns (address) {
        address signer = address(_signers[operator].upperLookupRecent(epoch_));
        return signer == address(0) ? operator : signer;
    }

    /// @notice May `signer` sign for the operator in this epoch, or could it in the one before? What is signed just
    /// before an epoch ends may count in the next one. False for epochs that have not begun.
    function isSigner(address operator, address signer, uint48 epoch_) external view returns (bool) {
        if (epoch_ > epoch()) return false;
        return
            signer == signerAt(operator, epoch_) || (epoch_ > 0 && signer == signerAt(operator, epoch_ - 1));
    }

    /// @notice The scheduler's VRF key of an epoch (33 bytes); empty before the epoch after its registration.
    function vrfKeyAt(address scheduler, uint48 epoch_) public view returns (bytes memory) {
        return _vrfKeys[scheduler][_rotations[scheduler].upperLookupRecent(epoch_)];
    }

    function vrfPublicKey(address scheduler) external view returns (bytes memory) {
        return vrfKeyAt(scheduler, epoch());
    }

    /// @dev An address that registers is its own, even if another operator had named it as its signer: otherwise
    /// anyone could keep others out by naming them.
    function _claimAddress(address operator) internal {
        address owner = operatorOf[operator];
        if (owner == operator) return;
        operatorOf[operator] = operator;
        if (owner != address(0)) _setSigner(owner, owner);
    }

    /// @dev `vrfKey`: compressed point of secp256k1, a prefix of 2 or 3 and the x coordinate. A key that is no point
    /// would make draws that nobody can check.
    function _setVrfKey(address scheduler, bytes calldata vrfKey) internal {
        if (vrfKey.length != 33 || (vrfKey[0] != 0x02 && vrfKey[0] != 0x03)) revert VrfKeyInvalid();
        uint256 x = uint256(bytes32(vrfKey[1:]));
        if (x >= _FIELD) revert VrfKeyInvalid();
        uint256 ySquared = addmod(mulmod(x, mulmod(x, x, _FIELD), _FIELD), 7, _FIELD);
        // Euler's criterion: only squares give 1.
        if (Math.modExp(ySquared, (_FIELD - 1) / 2, _FIELD) != 1) revert VrfKeyInvalid();
        uint48 next = epoch() + 1;
        // What it replaces does not matter.
        // slither-disable-next-line unused-return
        _rotations[scheduler].push(next, next);
        _vrfKeys[scheduler][next] = vrfKey;
        emit VrfKeyChanged(scheduler, vrfKey, next);
    }

    function _setSigner(address operator, address signer) private {
        uint48 next = epoch() + 1;
        // What it replaces does not matter.
        // slither-disable-next-line unused-return
        _signers[operator].push(next, uint160(signer));
        emit SignerChanged(operator, signer, next);
    }
}
