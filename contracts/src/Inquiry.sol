// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Eip712} from "./libraries/Eip712.sol";
import {Records} from "./libraries/Records.sol";
import {Vrf, VrfProof} from "./libraries/Vrf.sol";
import {Judge} from "./Judge.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {
    Commitment,
    CommitmentProof,
    Job,
    Params,
    RecordProof,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    SCHEDULER_POOL,
    SettlementRecord,
    Verdict
} from "./Types.sol";

/// @notice What only a scheduler can show, the signatures behind a record and the VRF proofs behind its assignments,
/// anyone may demand against a bond: the answer earns the bond, silence costs the scheduler its stake.
contract Inquiry is Judge {
    enum Matter {
        Record,
        Worker,
        Committee
    }

    /// @notice The chain keeps its hash; `Demanded` publishes it.
    struct Demand {
        uint256 roundId;
        Matter matter;
        uint32 index;
        uint64 deadline;
        address challenger;
    }

    /// @notice All that a settlement record rests on; verdict i is of verifier i.
    struct Grounds {
        Job job;
        bytes jobSignature;
        CommitmentProof worker;
        CommitmentProof[] verifiers;
        Verdict[] verdicts;
        bytes[] verdictSignatures;
    }

    uint256 public demandCount;
    mapping(uint256 demandId => bytes32) public demandHash;

    event Demanded(uint256 indexed demandId, uint256 indexed roundId, Demand demand);
    event DemandAnswered(uint256 indexed demandId);
    event DemandIgnored(uint256 indexed demandId, address indexed scheduler);

    error NotSettled(uint256 roundId);
    error IndexInvalid(uint256 index, uint256 limit);
    error DemandUnknown(uint256 demandId);
    error AnswerMismatch(string field);

    constructor(Staking staking_, Rounds rounds_) Judge(staking_, rounds_) {}

    /// @notice Make the scheduler show what a job's record, its worker or its verifiers rest on, before the deadline.
    function demand(uint256 roundId, Round calldata round, Matter matter, uint32 index)
        external
        returns (uint256 demandId)
    {
        _checkChallengeable(roundId, round);
        if (round.finalBlock == 0) revert NotSettled(roundId);
        if (index >= round.jobs) revert IndexInvalid(index, round.jobs);
        Params memory params = _params(round);
        Demand memory d = Demand({
            roundId: roundId,
            matter: matter,
            index: index,
            deadline: uint64(block.number + params.openingDeadlineBlocks),
            challenger: msg.sender
        });
        demandId = ++demandCount;
        demandHash[demandId] = keccak256(abi.encode(d));
        rounds.hold(roundId);
        emit Demanded(demandId, roundId, d);
        rounds.takeBond(msg.sender, params.disputeBond);
    }

    /// @notice The record, and every signature that it rests on.
    function answerRecord(
        uint256 demandId,
        Demand calldata d,
        Round calldata round,
        RecordProof calldata job,
        Grounds calldata g
    ) external {
        _answer(demandId, d, round, Matter.Record);
        _checkRecord(d, round, job);
        SettlementRecord calldata record = job.record;
        bytes32 id = rounds.jobId(g.job);
        if (id != record.jobId) revert JobMismatch(id);
        if (ECDSA.recover(id, g.jobSignature) != g.job.client) revert SignatureInvalid(g.job.client);
        if (!Records.follows(g.job, round, record, _params(round))) revert AnswerMismatch("record");
        _checkSigned(round, g.worker, ROLE_WORKER);
        if (g.worker.leafIndex != d.index || !Records.matches(record, g.worker.commitment)) {
            revert AnswerMismatch("worker");
        }
        for (uint256 i; i < record.verifiers.length; ++i) {
            _checkVerifier(round, record, g, i);
        }
    }

    /// @notice The worker was drawn by the scheduler's VRF from the stakes of the round's epoch or the one before.
    function answerWorker(
        uint256 demandId,
        Demand calldata d,
        Round calldata round,
        CommitmentProof calldata worker,
        uint48 epoch,
        VrfProof calldata proof
    ) external {
        _answer(demandId, d, round, Matter.Worker);
        Commitment calldata c = worker.commitment;
        _checkSigned(round, worker, ROLE_WORKER);
        if (worker.leafIndex != d.index) revert AnswerMismatch("worker");
        if (epoch != round.epoch && epoch + 1 != round.epoch) revert AnswerMismatch("epoch");
        if (c.attempt >= _params(round).maxAttempts) revert AnswerMismatch("attempt");
        bytes32 alpha = keccak256(abi.encodePacked(staking.epochSeed(epoch), c.jobId, c.attempt));
        address[] memory drawn = _draw(round, epoch, alpha, proof, 1, new address[](0));
        if (drawn.length == 0 || drawn[0] != c.operator) revert AnswerMismatch("operator");
    }

    /// @notice The record's verifiers are among those that the scheduler's VRF drew with the round's seed.
    function answerCommittee(
        uint256 demandId,
        Demand calldata d,
        Round calldata round,
        RecordProof calldata job,
        Job calldata signed,
        VrfProof calldata proof
    ) external {
        _answer(demandId, d, round, Matter.Committee);
        _checkRecord(d, round, job);
        if (rounds.jobId(signed) != job.record.jobId) revert JobMismatch(job.record.jobId);
        address[] memory excluded = new address[](1);
        excluded[0] = job.record.worker;
        bytes32 alpha = keccak256(abi.encodePacked(round.verifierSeed, job.record.jobId));
        uint256 count = uint256(signed.verifiers) + _params(round).verifierSpares;
        address[] memory drawn = _draw(round, round.epoch, alpha, proof, count, excluded);
        for (uint256 i; i < job.record.verifiers.length; ++i) {
            bool found;
            for (uint256 j; j < drawn.length; ++j) {
                if (drawn[j] == job.record.verifiers[i]) found = true;
            }
            if (!found) revert AnswerMismatch("verifier");
        }
    }

    /// @notice The deadline passed without an answer. A record that the scheduler does not show makes the whole
    /// settlement unprovable, so everybody gets back what they paid; otherwise only the job is void.
    function slashSilent(uint256 demandId, Demand calldata d, Round calldata round) external {
        _takeDemand(demandId, d, round);
        if (block.number <= d.deadline) revert TooEarly(d.deadline);
        Params memory params = _params(round);
        rounds.credit(d.challenger, params.disputeBond);
        if (d.matter == Matter.Record) rounds.refute(d.roundId);
        else rounds.voidJob(d.roundId, d.index);
        emit DemandIgnored(demandId, round.scheduler);
        _slash(SCHEDULER_POOL, round.scheduler, params.slashBpsSettlement, params, d.challenger);
    }

    // --- internals ---

    function _checkRecord(Demand calldata d, Round calldata round, RecordProof calldata job) private pure {
        if (job.index != d.index) revert AnswerMismatch("index");
        Records.check(round, job);
    }

    function _checkVerifier(
        Round calldata round,
        SettlementRecord calldata record,
        Grounds calldata g,
        uint256 i
    ) private view {
        Commitment calldata c = g.verifiers[i].commitment;
        Verdict calldata v = g.verdicts[i];
        _checkSigned(round, g.verifiers[i], ROLE_VERIFIER);
        if (c.operator != record.verifiers[i] || c.jobId != record.jobId) revert AnswerMismatch("verifier");
        if (v.operator != c.operator || v.jobId != record.jobId || v.verdict != record.verdicts[i]) {
            revert AnswerMismatch("verdict");
        }
        bytes32 digest = MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), Eip712.hash(v));
        _checkSignature(round.epoch, v.operator, digest, g.verdictSignatures[i]);
    }

    function _draw(
        Round calldata round,
        uint48 epoch,
        bytes32 alpha,
        VrfProof calldata proof,
        uint256 count,
        address[] memory excluded
    ) private view returns (address[] memory) {
        bytes memory key = staking.vrfKeyAt(round.scheduler, epoch);
        bytes32 beta = Vrf.verify(key, abi.encodePacked(alpha), proof);
        return staking.draw(round.modelId, epoch, abi.encodePacked(beta), count, excluded);
    }

    /// @dev The bond pays for the answer, of which the caller checks the content.
    function _answer(uint256 demandId, Demand calldata d, Round calldata round, Matter matter) private {
        _takeDemand(demandId, d, round);
        if (d.matter != matter) revert AnswerMismatch("matter");
        if (block.number > d.deadline) revert TooLate(d.deadline);
        rounds.credit(round.scheduler, _params(round).disputeBond);
        emit DemandAnswered(demandId);
    }

    /// @dev The round may have been refunded meanwhile: the bond must have an end even so.
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
