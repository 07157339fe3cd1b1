// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Eip712} from "./libraries/Eip712.sol";
import {Merkle} from "./libraries/Merkle.sol";
import {Opening} from "./libraries/Opening.sol";
import {Tags} from "./libraries/Tags.sol";
import {Parameters} from "./Parameters.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {BPS, Commitment, CommitmentProof, Params, ROLE_VERIFIER, ROLE_WORKER, Round} from "./Types.sol";

/// @notice What all courts share: which rounds can be challenged, who signed what in which round, and how a slash is
/// split. Courts hold no tokens; bonds and slashed stake lie in `Rounds`.
abstract contract Judge {
    Staking public immutable staking;
    Rounds public immutable rounds;
    Parameters public immutable parameters;

    error NotInRound(address operator);
    error SignatureInvalid(address operator);
    error RoundIsFinal(uint256 roundId);
    error JobMismatch(bytes32 jobId);
    error TooEarly(uint256 deadline);
    error TooLate(uint256 deadline);

    constructor(Staking staking_, Rounds rounds_) {
        staking = staking_;
        rounds = rounds_;
        parameters = rounds_.parameters();
    }

    /// @dev A round can be challenged from its first transaction until its window has passed, and after that while a
    /// voided job waits to be deducted; one that was not settled, until it no longer can be.
    function _checkChallengeable(uint256 roundId, Round calldata round) internal view {
        rounds.check(roundId, round);
        uint256 last = round.finalBlock == 0 ? round.settleBy : round.finalBlock;
        if (block.number > last && (round.finalBlock == 0 || rounds.pending(roundId).voidsOpen == 0)) {
            revert RoundIsFinal(roundId);
        }
    }

    function _params(Round calldata round) internal view returns (Params memory) {
        return parameters.at(round.paramsVersion);
    }

    /// @dev The commitment is signed by its operator and is in the round's tree of its role.
    function _checkSigned(Round calldata round, CommitmentProof calldata p, uint8 role) internal view {
        Commitment calldata c = p.commitment;
        if (c.role != role || role > ROLE_VERIFIER) revert NotInRound(c.operator);
        bytes32 digest = MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), Eip712.hash(c));
        _checkSignature(round.epoch, c.operator, digest, p.signature);
        bytes32 leaf = keccak256(abi.encodePacked(Tags.ROUND_LEAF, digest, c.operator));
        (bytes32 root, uint256 count) = role == ROLE_WORKER
            ? (round.commitRoot, round.jobs)
            : (round.verificationRoot, round.verifications);
        if (Merkle.rootFrom(leaf, p.leafIndex, count, p.leafProof) != root) revert NotInRound(c.operator);
    }

    /// @dev Also, `parts` are the preimage of its job root.
    function _checkCommitment(Round calldata round, CommitmentProof calldata p, uint8 role) internal view {
        _checkSigned(round, p, role);
        Opening.checkParts(p.commitment, round.modelId, p.parts);
    }

    /// @dev Signed by the operator, or by the key that it had named for the epoch or for the one before.
    function _checkSignature(uint48 epoch, address operator, bytes32 digest, bytes calldata signature)
        internal
        view
    {
        address signer = ECDSA.recover(digest, signature);
        if (signer != operator && !staking.isSigner(operator, signer, epoch)) {
            revert SignatureInvalid(operator);
        }
    }

    /// @dev Slash, and give the challenger its share, rounded down; the rest is burned, so no reward is ever minted.
    function _slash(bytes32 pool, address operator, uint256 bps, Params memory params, address challenger)
        internal
    {
        uint256 taken = staking.slash(pool, operator, bps);
        uint256 paid = taken * params.challengerShareBps / BPS;
        if (paid > 0) rounds.credit(challenger, paid);
        if (taken > paid) rounds.burn(taken - paid);
    }
}
