// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {FixedDot} from "./libraries/FixedDot.sol";
import {Gumbel} from "./libraries/Gumbel.sol";
import {Opening} from "./libraries/Opening.sol";
import {Philox} from "./libraries/Philox.sol";
import {SettlementRules} from "./libraries/SettlementRules.sol";
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
    RowOpening,
    SettlementRecord
} from "./Types.sol";

/// @notice Challenges that the contract decides alone: token fraud, withheld openings, false settlements.
contract Tribunal is Judge {
    using SafeERC20 for IERC20;

    struct Demand {
        address operator;
        bool isWorker;
        uint48 deadline;
        address challenger;
        uint16 boundary;
        uint32 position;
        address scheduler;
        bytes32 modelId;
        Commitment commitment;
    }

    struct TokenFraud {
        uint256 roundId;
        CommitmentProof worker;
        Job job;
        RowOpening finalRow;
        uint32 claimedToken;
        bytes32[] tokenProof;
        MatrixRow claimed;
        MatrixRow better;
    }

    uint256 public demandCount;
    mapping(uint256 demandId => Demand) private _demands;
    mapping(bytes32 offence => bool) public punished;

    event TokenFraudProven(
        bytes32 indexed jobId,
        address indexed worker,
        uint32 position,
        uint32 claimed,
        uint32 better,
        int256 gapQ24
    );
    event OpeningDemanded(
        uint256 indexed demandId,
        bytes32 indexed jobId,
        address indexed operator,
        uint16 boundary,
        uint32 position
    );
    event OpeningAnswered(uint256 indexed demandId, RowOpening opening);
    event OpeningWithheld(uint256 indexed demandId, address indexed operator);
    event SettlementRefuted(uint256 indexed roundId, bytes32 indexed jobId, address indexed scheduler);

    error MaskedSamplingNeedsJury();
    error NotAnOutputToken(uint32 position);
    error FinalBoundaryNeeded(uint16 boundary);
    error TokenFollows(int256 gapQ24, uint256 marginQ24);
    error AlreadyPunished();
    error RowMismatch();
    error OpeningMismatch();
    error DemandUnknown(uint256 demandId);
    error SettlementFollows();

    constructor(IERC20 token_, Staking staking_, Rounds rounds_, Params memory params)
        Judge(token_, staking_, rounds_, params)
    {}

    // --- token fraud: decided by the contract alone ---

    /// @notice Show a token that scores higher than the claimed one on the worker's own committed final row.
    function proveTokenFraud(TokenFraud calldata f) external {
        Rounds.Round memory r = _challengeable(f.roundId);
        Commitment memory c = _checkCommitment(r, f.worker, ROLE_WORKER);
        ModelSpec memory spec = staking.model(r.modelId);
        if (rounds.jobId(f.job) != c.jobId) revert JobMismatch(c.jobId);
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
        int256 gap = _score(spec, f.job, f.finalRow, f.better) - _score(spec, f.job, f.finalRow, f.claimed);
        if (gap <= int256(uint256(spec.tokenMarginQ24))) revert TokenFollows(gap, spec.tokenMarginQ24);
        _punishOnce(keccak256(abi.encode("token", c.jobId, c.operator)));
        rounds.voidJob(r.scheduler, c.jobId);
        emit TokenFraudProven(c.jobId, c.operator, position + 1, f.claimedToken, f.better.token, gap);
        uint256 taken = staking.slash(r.modelId, c.operator, _params.slashBpsTokenFraud);
        _share(taken, msg.sender, new address[](0));
    }

    // --- withheld openings ---

    function demandOpening(uint256 roundId, CommitmentProof calldata proof, uint16 boundary, uint32 position)
        external
        returns (uint256 demandId)
    {
        Rounds.Round memory r = _challengeable(roundId);
        Commitment memory c = _recover(r, proof, proof.commitment.role);
        ModelSpec memory spec = staking.model(r.modelId);
        if (
            boundary >= spec.rowToleranceQ40.length
                || uint256(position) + 1 >= uint256(c.promptTokens) + c.outputTokens
        ) {
            revert OpeningMismatch();
        }
        demandId = ++demandCount;
        _demands[demandId] = Demand({
            operator: c.operator,
            isWorker: c.role == ROLE_WORKER,
            deadline: uint48(block.number + _params.openingDeadlineBlocks),
            challenger: msg.sender,
            boundary: boundary,
            position: position,
            scheduler: r.scheduler,
            modelId: r.modelId,
            commitment: c
        });
        rounds.hold(r.scheduler, c.jobId);
        emit OpeningDemanded(demandId, c.jobId, c.operator, boundary, position);
        token.safeTransferFrom(msg.sender, address(this), _params.disputeBond);
    }

    /// @notice Publish the row; the bond pays whoever had to.
    function answerOpening(uint256 demandId, JobRootParts calldata parts, RowOpening calldata opening)
        external
    {
        Demand memory d = _takeDemand(demandId);
        if (block.number > d.deadline) revert TooLate(d.deadline);
        if (opening.boundary != d.boundary || opening.position != d.position) revert OpeningMismatch();
        Opening.checkParts(d.commitment, d.modelId, parts);
        Opening.checkRow(d.commitment, parts, staking.model(d.modelId), opening);
        rewards[d.operator] += _params.disputeBond;
        rounds.release(d.scheduler, d.commitment.jobId);
        emit OpeningAnswered(demandId, opening);
    }

    function slashWithheld(uint256 demandId) external {
        Demand memory d = _takeDemand(demandId);
        if (block.number <= d.deadline) revert TooEarly(d.deadline);
        rewards[d.challenger] += _params.disputeBond;
        rounds.release(d.scheduler, d.commitment.jobId);
        if (d.isWorker) rounds.voidJob(d.scheduler, d.commitment.jobId);
        emit OpeningWithheld(demandId, d.operator);
        uint256 taken = staking.slash(d.modelId, d.operator, _params.slashBpsWithheld);
        _share(taken, d.challenger, new address[](0));
    }

    // --- settlements ---

    /// @notice The record contradicts the signed job, the worker's commitment, the fee formula or the outcome rule.
    function challengeSettlement(
        uint256 roundId,
        uint256 index,
        SettlementRecord calldata record,
        bytes32[] calldata proof,
        Job calldata job,
        CommitmentProof calldata worker
    ) external {
        Rounds.Round memory r = _challengeable(roundId);
        rounds.checkRecord(roundId, index, record, proof);
        Commitment memory c = _recover(r, worker, ROLE_WORKER);
        if (rounds.jobId(job) != record.jobId || c.jobId != record.jobId) revert JobMismatch(record.jobId);
        bool counts = record.worker == c.operator && record.promptTokens == c.promptTokens
            && record.outputTokens == c.outputTokens;
        if (counts && SettlementRules.follows(job, record, _params)) revert SettlementFollows();
        _punishOnce(keccak256(abi.encode("settlement", roundId, record.jobId)));
        rounds.voidJob(r.scheduler, record.jobId);
        emit SettlementRefuted(roundId, record.jobId, r.scheduler);
        uint256 taken = staking.slash(staking.SCHEDULER_POOL(), r.scheduler, _params.slashBpsSettlement);
        _share(taken, msg.sender, new address[](0));
    }

    function demand(uint256 demandId) external view returns (Demand memory) {
        return _demands[demandId];
    }

    // --- internals ---

    function _score(
        ModelSpec memory spec,
        Job calldata job,
        RowOpening calldata row,
        MatrixRow calldata weights
    ) private pure returns (int256 score) {
        Opening.checkWeights(spec, weights);
        score = FixedDot.logitQ24(row.row, spec.rowDtype, weights.row, spec.weightDtype, spec.hiddenSize);
        if (job.temperaturePpm == 0) return score;
        int256 noise = int256(uint256(job.temperaturePpm))
            * Gumbel.noiseQ24(Philox.noiseWord(job.seed, row.position, weights.token));
        int256 quotient = noise / 1_000_000;
        if (noise < 0 && quotient * 1_000_000 != noise) --quotient; // floor
        score += quotient;
    }

    function _punishOnce(bytes32 offence) private {
        if (punished[offence]) revert AlreadyPunished();
        punished[offence] = true;
    }

    function _takeDemand(uint256 demandId) private returns (Demand memory d) {
        d = _demands[demandId];
        if (d.operator == address(0)) revert DemandUnknown(demandId);
        delete _demands[demandId];
    }
}
