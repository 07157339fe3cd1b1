// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Eip712} from "./libraries/Eip712.sol";
import {FixedDot} from "./libraries/FixedDot.sol";
import {Gumbel} from "./libraries/Gumbel.sol";
import {Opening} from "./libraries/Opening.sol";
import {Philox} from "./libraries/Philox.sol";
import {Rows} from "./libraries/Rows.sol";
import {Judge} from "./Judge.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {
    Commitment,
    CommitmentProof,
    Job,
    JobRootParts,
    MatrixRow,
    ModelSpec,
    Params,
    ROLE_WORKER,
    Round,
    RowOpening,
    Verdict
} from "./Types.sol";

/// @notice Faults of operators that the contract decides alone: token fraud, withheld openings, two verdicts on one job.
contract Tribunal is Judge {
    struct TokenFraud {
        CommitmentProof worker;
        Job job;
        RowOpening finalRow;
        uint32 claimedToken;
        bytes32[] tokenProof;
        MatrixRow claimed;
        MatrixRow better;
    }

    /// @notice A row that somebody demands. The chain keeps its hash; `OpeningDemanded` publishes it.
    struct Demand {
        uint256 roundId;
        uint256 leafIndex;
        uint16 boundary;
        uint32 position;
        uint64 deadline;
        address challenger;
        Commitment commitment;
    }

    uint256 public demandCount;
    mapping(uint256 demandId => bytes32) public demandHash;
    mapping(bytes32 offence => bool) public punished;

    event TokenFraudProven(
        bytes32 indexed jobId,
        address indexed worker,
        uint32 position,
        uint32 claimed,
        uint32 better,
        int256 gapQ24
    );
    event InvalidRowProven(bytes32 indexed jobId, address indexed operator, uint16 boundary, uint32 position);
    event OpeningDemanded(
        uint256 indexed demandId, bytes32 indexed jobId, address indexed operator, Demand demand
    );
    event OpeningAnswered(uint256 indexed demandId, RowOpening opening);
    event OpeningWithheld(uint256 indexed demandId, address indexed operator);
    event VerdictsContradict(bytes32 indexed jobId, address indexed operator);

    error MaskedSamplingNeedsJury();
    error NotAnOutputToken(uint32 position);
    error FinalBoundaryNeeded(uint16 boundary);
    error TokenFollows(int256 gapQ24, uint256 marginQ24);
    error AlreadyPunished();
    error RowMismatch();
    error OpeningMismatch();
    error DemandUnknown(uint256 demandId);
    error VerdictsAgree();
    error RowIsFinite();

    constructor(Staking staking_, Rounds rounds_) Judge(staking_, rounds_) {}

    // --- token fraud ---

    /// @notice Show a token that scores higher than the claimed one on the worker's own committed final row.
    function proveTokenFraud(uint256 roundId, Round calldata round, TokenFraud calldata f) external {
        _checkChallengeable(roundId, round);
        _checkCommitment(round, f.worker, ROLE_WORKER);
        Commitment calldata c = f.worker.commitment;
        if (rounds.jobId(f.job) != c.jobId) revert JobMismatch(c.jobId);
        _checkToken(round, f);
        if (!_condemn(keccak256(abi.encode("token", c.jobId, c.operator)), roundId, f.worker)) return;
        Params memory params = _params(round);
        _slash(round.modelId, c.operator, params.slashBpsTokenFraud, params, msg.sender);
    }

    // --- rows that are no numbers ---

    /// @notice Show a committed row that holds a NaN or an infinity, which no honest computation commits to and no
    /// jury could compare.
    function proveInvalidRow(
        uint256 roundId,
        Round calldata round,
        CommitmentProof calldata proof,
        RowOpening calldata opening
    ) external {
        _checkChallengeable(roundId, round);
        Commitment calldata c = proof.commitment;
        _checkCommitment(round, proof, c.role);
        ModelSpec memory spec = staking.model(round.modelId);
        Opening.checkRow(c, proof.parts, spec, opening);
        if (Rows.isFinite(opening.row, spec.rowDtype)) revert RowIsFinite();
        emit InvalidRowProven(c.jobId, c.operator, opening.boundary, opening.position);
        if (!_condemn(keccak256(abi.encode("row", c.jobId, c.operator)), roundId, proof)) return;
        Params memory params = _params(round);
        _slash(round.modelId, c.operator, params.slashBpsDivergence, params, msg.sender);
    }

    // --- withheld openings ---

    /// @notice Make an operator publish one of its rows before the deadline. Costs a bond, which pays for the answer.
    /// The job must be one for this round, by scheduler, model and deadline: a stranger cannot bring up old ones.
    function demandOpening(
        uint256 roundId,
        Round calldata round,
        CommitmentProof calldata proof,
        Job calldata job,
        uint16 boundary,
        uint32 position
    ) external returns (uint256 demandId) {
        _checkChallengeable(roundId, round);
        Commitment calldata c = proof.commitment;
        _checkSigned(round, proof, c.role);
        if (
            rounds.jobId(job) != c.jobId || job.scheduler != round.scheduler || job.modelId != round.modelId
                || round.committedAt > job.deadline
        ) revert JobMismatch(c.jobId);
        if (
            boundary >= staking.model(round.modelId).rowToleranceQ40.length
                || uint256(position) + 1 >= uint256(c.promptTokens) + c.outputTokens
        ) revert OpeningMismatch();
        Params memory params = _params(round);
        Demand memory d = Demand({
            roundId: roundId,
            leafIndex: proof.leafIndex,
            boundary: boundary,
            position: position,
            deadline: uint64(block.number + params.openingDeadlineBlocks),
            challenger: msg.sender,
            commitment: c
        });
        demandId = ++demandCount;
        demandHash[demandId] = keccak256(abi.encode(d));
        rounds.hold(roundId);
        emit OpeningDemanded(demandId, c.jobId, c.operator, d);
        rounds.takeBond(msg.sender, params.disputeBond);
    }

    /// @notice Publish the row; the bond goes to the operator who had to.
    function answerOpening(
        uint256 demandId,
        Demand calldata d,
        Round calldata round,
        JobRootParts calldata parts,
        RowOpening calldata opening
    ) external {
        _takeDemand(demandId, d, round);
        if (block.number > d.deadline) revert TooLate(d.deadline);
        if (opening.boundary != d.boundary || opening.position != d.position) revert OpeningMismatch();
        Opening.checkParts(d.commitment, round.modelId, parts);
        Opening.checkRow(d.commitment, parts, staking.model(round.modelId), opening);
        rounds.credit(d.commitment.operator, _params(round).disputeBond);
        emit OpeningAnswered(demandId, opening);
    }

    function slashWithheld(uint256 demandId, Demand calldata d, Round calldata round) external {
        _takeDemand(demandId, d, round);
        if (block.number <= d.deadline) revert TooEarly(d.deadline);
        Params memory params = _params(round);
        rounds.credit(d.challenger, params.disputeBond);
        if (d.commitment.role == ROLE_WORKER) rounds.voidJob(d.roundId, d.leafIndex);
        emit OpeningWithheld(demandId, d.commitment.operator);
        // However many rows it withholds, they are one offence.
        bytes32 offence = keccak256(abi.encode("withheld", d.commitment.jobId, d.commitment.operator));
        if (punished[offence]) return;
        punished[offence] = true;
        _slash(round.modelId, d.commitment.operator, params.slashBpsWithheld, params, d.challenger);
    }

    // --- two verdicts ---

    /// @notice A verifier signed two different verdicts on one job. So a verifier cannot give the scheduler one and
    /// accuse it with the other.
    function proveEquivocation(
        Job calldata job,
        Verdict calldata first,
        bytes calldata firstSignature,
        Verdict calldata second,
        bytes calldata secondSignature
    ) external {
        bytes32 id = rounds.jobId(job);
        if (first.jobId != id || second.jobId != id || first.operator != second.operator) {
            revert JobMismatch(id);
        }
        bytes32 firstHash = Eip712.hash(first);
        bytes32 secondHash = Eip712.hash(second);
        if (firstHash == secondHash) revert VerdictsAgree();
        bytes32 domain = rounds.domainSeparator();
        uint48 epoch = staking.epoch();
        bytes32 digest = MessageHashUtils.toTypedDataHash(domain, firstHash);
        _checkSignature(epoch, first.operator, digest, firstSignature);
        digest = MessageHashUtils.toTypedDataHash(domain, secondHash);
        _checkSignature(epoch, first.operator, digest, secondSignature);
        bytes32 offence = keccak256(abi.encode("verdict", id, first.operator));
        if (punished[offence]) revert AlreadyPunished();
        punished[offence] = true;
        emit VerdictsContradict(id, first.operator);
        Params memory params = parameters.current();
        _slash(job.modelId, first.operator, params.slashBpsWithheld, params, msg.sender);
    }

    // --- internals ---

    function _checkToken(Round calldata round, TokenFraud calldata f) private {
        ModelSpec memory spec = staking.model(round.modelId);
        Commitment calldata c = f.worker.commitment;
        if (f.job.temperaturePpm != 0 && (f.job.topK != 0 || f.job.topPPpm != 1_000_000)) {
            revert MaskedSamplingNeedsJury();
        }
        uint32 position = f.finalRow.position;
        if (position + 1 < c.promptTokens) revert NotAnOutputToken(position);
        if (uint256(f.finalRow.boundary) + 1 != spec.rowToleranceQ40.length) {
            revert FinalBoundaryNeeded(f.finalRow.boundary);
        }
        if (f.claimed.token != f.claimedToken) revert RowMismatch();
        Opening.checkRow(c, f.worker.parts, spec, f.finalRow);
        Opening.checkToken(c, f.worker.parts, position + 1, f.claimedToken, f.tokenProof);
        int256[] memory values = FixedDot.q40(f.finalRow.row, spec.rowDtype);
        int256 gap = _score(spec, f.job, position, values, f.better)
            - _score(spec, f.job, position, values, f.claimed);
        if (gap <= int256(uint256(spec.tokenMarginQ24))) revert TokenFollows(gap, spec.tokenMarginQ24);
        emit TokenFraudProven(c.jobId, c.operator, position + 1, f.claimedToken, f.better.token, gap);
    }

    function _score(
        ModelSpec memory spec,
        Job calldata job,
        uint32 position,
        int256[] memory values,
        MatrixRow calldata weights
    ) private pure returns (int256 score) {
        Opening.checkWeights(spec, weights);
        score = FixedDot.logitQ24(values, weights.row, spec.weightDtype);
        if (job.temperaturePpm == 0) return score;
        int256 noise = int256(uint256(job.temperaturePpm))
            * Gumbel.noiseQ24(Philox.noiseWord(job.seed, position, weights.token));
        // The product below only tells whether a remainder was cut off.
        // slither-disable-next-line divide-before-multiply
        int256 quotient = noise / 1_000_000;
        if (noise < 0 && quotient * 1_000_000 != noise) --quotient; // floor
        score += quotient;
    }

    /// @dev It is one offence in however many rounds the commitment stands, but in none of them is the job paid.
    /// @return first whether the offence is new, and the operator to be slashed
    function _condemn(bytes32 offence, uint256 roundId, CommitmentProof calldata p)
        private
        returns (bool first)
    {
        first = !punished[offence];
        punished[offence] = true;
        bool standing = p.commitment.role == ROLE_WORKER
            && rounds.jobState(roundId, p.leafIndex) == Rounds.JobState.Standing;
        if (standing) rounds.voidJob(roundId, p.leafIndex);
        else if (!first) revert AlreadyPunished();
    }

    /// @dev The demand is open and about this round; it ends with this call. A refuted round may be refunded meanwhile.
    function _takeDemand(uint256 demandId, Demand calldata d, Round calldata round) private {
        // 0 stands for no demand. Hashes are compared, not amounts.
        // slither-disable-next-line incorrect-equality
        if (demandHash[demandId] == 0 || demandHash[demandId] != keccak256(abi.encode(d))) {
            revert DemandUnknown(demandId);
        }
        // A closed round will do; a wrong one reverts.
        // slither-disable-next-line unused-return
        rounds.checkAny(d.roundId, round);
        delete demandHash[demandId];
        rounds.release(d.roundId);
    }
}
