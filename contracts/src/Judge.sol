// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Eip712} from "./libraries/Eip712.sol";
import {Merkle} from "./libraries/Merkle.sol";
import {Opening} from "./libraries/Opening.sol";
import {Tags} from "./libraries/Tags.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {Commitment, CommitmentProof, Params, ROLE_VERIFIER, ROLE_WORKER} from "./Types.sol";

/// @notice What both courts share: who signed what in which round, and how a slash is split.
abstract contract Judge {
    using SafeERC20 for IERC20;

    uint256 private constant BPS = 10_000;
    address public constant BURN = 0x000000000000000000000000000000000000dEaD;

    IERC20 public immutable token;
    Staking public immutable staking;
    Rounds public immutable rounds;
    Params internal _params;

    mapping(address account => uint256) public rewards;

    event RewardPaid(address indexed account, uint256 amount);

    error NotInRound(address operator);
    error SignatureInvalid(address operator);
    error RoundIsFinal(uint256 roundId);
    error NothingToWithdraw();
    error JobMismatch(bytes32 jobId);
    error TooEarly(uint256 deadline);
    error TooLate(uint256 deadline);

    constructor(IERC20 token_, Staking staking_, Rounds rounds_, Params memory params) {
        token = token_;
        staking = staking_;
        rounds = rounds_;
        _params = params;
    }

    function withdrawRewards() external returns (uint256 amount) {
        amount = rewards[msg.sender];
        if (amount == 0) revert NothingToWithdraw();
        rewards[msg.sender] = 0;
        emit RewardPaid(msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    /// @dev A round can be challenged from its first transaction until its window has passed.
    function _challengeable(uint256 roundId) internal view returns (Rounds.Round memory r) {
        r = rounds.round(roundId);
        if (r.finalBlock != 0 && block.number > r.finalBlock) revert RoundIsFinal(roundId);
    }

    /// @dev The commitment is signed by its operator and is in the round's tree of its role.
    function _recover(Rounds.Round memory r, CommitmentProof calldata p, uint8 role)
        internal
        view
        returns (Commitment memory c)
    {
        c = p.commitment;
        if (c.role != role || role > ROLE_VERIFIER) revert NotInRound(c.operator);
        bytes32 digest = MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), Eip712.hash(p.commitment));
        if (ECDSA.recover(digest, p.signature) != c.operator) revert SignatureInvalid(c.operator);
        bytes32 leaf = keccak256(abi.encodePacked(Tags.ROUND_LEAF, digest, c.operator));
        (bytes32 root, uint256 count) =
            role == ROLE_WORKER ? (r.commitRoot, r.jobs) : (r.verificationRoot, r.verifications);
        if (Merkle.rootFrom(leaf, p.leafIndex, count, p.leafProof) != root) revert NotInRound(c.operator);
    }

    function _checkCommitment(Rounds.Round memory r, CommitmentProof calldata p, uint8 role)
        internal
        view
        returns (Commitment memory c)
    {
        c = _recover(r, p, role);
        Opening.checkParts(c, r.modelId, p.parts);
    }

    /// @dev Challenger and jurors get their shares, rounded down; the rest is burned, so no reward is ever minted.
    function _share(uint256 taken, address challenger, address[] memory jurors) internal {
        uint256 forChallenger = taken * _params.challengerShareBps / BPS;
        uint256 paid = forChallenger;
        rewards[challenger] += forChallenger;
        if (jurors.length > 0) {
            uint256 each = taken * _params.jurorShareBps / BPS / jurors.length;
            for (uint256 i; i < jurors.length; ++i) {
                rewards[jurors[i]] += each;
            }
            paid += each * jurors.length;
        }
        if (taken > paid) token.safeTransfer(BURN, taken - paid);
    }
}
