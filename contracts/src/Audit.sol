// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Records} from "./libraries/Records.sol";
import {Judge} from "./Judge.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {
    CommitmentProof,
    Job,
    Line,
    Link,
    NO_JOB,
    Params,
    RecordProof,
    ROLE_WORKER,
    Round,
    SCHEDULER_POOL,
    VERDICT_ACCEPT
} from "./Types.sol";

/// @notice Faults of schedulers that the contract decides alone: a settlement that contradicts the jobs, the commitments
/// or itself, a job paid twice, a round left unsettled.
contract Audit is Judge {
    mapping(bytes32 offence => bool) public punished;

    event RecordRefuted(uint256 indexed roundId, uint256 indexed index, address indexed scheduler);
    event SettlementRefuted(uint256 indexed roundId, address indexed scheduler);
    event RoundAbandoned(uint256 indexed roundId, address indexed scheduler);

    error RecordFollows(uint256 index);
    error ChainFollows(uint256 index);
    error LineFollows(address account);
    error NotDuplicates();
    error SettledInTime(uint256 roundId);
    error IndexInvalid(uint256 index, uint256 limit);
    error AlreadyPunished();

    constructor(Staking staking_, Rounds rounds_) Judge(staking_, rounds_) {}

    /// @notice The record contradicts the job, the worker's commitment, the fee formula or the outcome rule.
    function challengeRecord(
        uint256 roundId,
        Round calldata round,
        RecordProof calldata job,
        Job calldata signed,
        CommitmentProof calldata worker
    ) external {
        _checkChallengeable(roundId, round);
        Records.check(round, job);
        _checkSigned(round, worker, ROLE_WORKER);
        if (worker.leafIndex != job.index) revert IndexInvalid(worker.leafIndex, round.jobs);
        Params memory params = _params(round);
        if (Records.matches(job.record, worker.commitment)) {
            if (rounds.jobId(signed) != job.record.jobId) revert JobMismatch(job.record.jobId);
            if (Records.follows(signed, round, job.record, params)) revert RecordFollows(job.index);
        }
        _punish(keccak256(abi.encode(roundId, job.index)), round, params);
        rounds.voidJob(roundId, job.index);
        emit RecordRefuted(roundId, job.index, round.scheduler);
    }

    /// @notice A party's chain through the records is wrong at `at`: its link points forward, leaves out the earlier
    /// record that is shown, or its total is not that of the former job plus its amount here. A record that is not
    /// sound breaks the chains of all.
    /// @param slot 0 the client, 1 the worker, 2 and on the verifiers
    /// @param earlier ignored if the link has no former job and `atFirst` says that its total alone is wrong
    function challengeChain(
        uint256 roundId,
        Round calldata round,
        RecordProof calldata at,
        uint256 slot,
        bool atFirst,
        RecordProof calldata earlier
    ) external {
        _checkChallengeable(roundId, round);
        Records.check(round, at);
        if (Records.sound(at.record)) {
            uint256 links = at.record.links.length;
            if (slot >= links) revert IndexInvalid(slot, links);
            if (!atFirst) Records.check(round, earlier);
            if (!_chainBroken(at, slot, atFirst, earlier)) revert ChainFollows(at.index);
        }
        _refute(roundId, round);
    }

    /// @notice An account's line is not the total of its last record.
    /// @param job the record that shows it: the one that the line calls the last, or one with a larger total
    function challengeLine(
        uint256 roundId,
        Round calldata round,
        Line[] calldata lines,
        bool paying,
        address account,
        RecordProof calldata job
    ) external {
        _checkChallengeable(roundId, round);
        if (keccak256(abi.encode(lines)) != (paying ? round.debitsHash : round.creditsHash)) {
            revert Rounds.LinesMismatch(roundId);
        }
        (bool listed, Line memory line) = Records.lineOf(lines, account);
        if (!listed || line.lastJob < round.jobs) {
            Records.check(round, job);
            if (!_lineBroken(listed, line, account, paying, job)) revert LineFollows(account);
        }
        _refute(roundId, round);
    }

    /// @notice A job stands in two records, or two jobs of one client with the same nonce were paid; the later one is
    /// void. Even if a record pays nothing: a scheduler must not draw committees for a job until one suits it.
    function challengeDuplicate(
        uint256[2] calldata roundIds,
        Round[2] calldata twoRounds,
        RecordProof[2] calldata records,
        Job[2] calldata jobs
    ) external {
        _checkChallengeable(roundIds[1], twoRounds[1]);
        // A closed round will do; a wrong one reverts.
        // slither-disable-next-line unused-return
        rounds.checkAny(roundIds[0], twoRounds[0]);
        for (uint256 i; i < 2; ++i) {
            Records.check(twoRounds[i], records[i]);
            if (rounds.jobId(jobs[i]) != records[i].record.jobId) {
                revert JobMismatch(records[i].record.jobId);
            }
        }
        bool ordered =
            roundIds[0] < roundIds[1] || (roundIds[0] == roundIds[1] && records[0].index < records[1].index);
        bool same = records[0].record.jobId == records[1].record.jobId;
        bool paidTwice = jobs[0].client == jobs[1].client && jobs[0].nonce == jobs[1].nonce
            && records[0].record.outcome == VERDICT_ACCEPT && records[1].record.outcome == VERDICT_ACCEPT;
        if (!ordered || twoRounds[0].scheduler != twoRounds[1].scheduler || !(same || paidTwice)) {
            revert NotDuplicates();
        }
        Params memory params = _params(twoRounds[1]);
        bytes32 offence = keccak256(abi.encode(roundIds[1], records[1].index));
        _punish(offence, twoRounds[1], params);
        rounds.voidJob(roundIds[1], records[1].index);
        emit RecordRefuted(roundIds[1], records[1].index, twoRounds[1].scheduler);
    }

    /// @notice A round was not settled in time. Clients lose nothing: their escrow was never touched.
    function slashAbandoned(uint256 roundId, Round calldata round) external {
        rounds.check(roundId, round);
        if (round.finalBlock != 0 || block.number <= round.settleBy) revert SettledInTime(roundId);
        _once(keccak256(abi.encode(roundId)));
        Params memory params = _params(round);
        emit RoundAbandoned(roundId, round.scheduler);
        _slash(SCHEDULER_POOL, round.scheduler, params.slashBpsWithheld, params, msg.sender);
    }

    // --- internals ---

    function _chainBroken(RecordProof calldata at, uint256 slot, bool atFirst, RecordProof calldata earlier)
        private
        pure
        returns (bool)
    {
        (address account, uint256 amount) = Records.party(at.record, slot);
        Link calldata link = at.record.links[slot];
        bool first = link.previous == NO_JOB;
        if (!first && link.previous >= at.index) return true;
        if (atFirst) return first && link.total != amount;
        if (earlier.index >= at.index) revert IndexInvalid(earlier.index, at.index);
        (bool found, uint256 there) = Records.slotOf(earlier.record, account, slot == 0);
        if (first || earlier.index > link.previous) return found;
        if (earlier.index < link.previous) return false;
        return !found || earlier.record.links[there].total + amount != link.total;
    }

    function _lineBroken(
        bool listed,
        Line memory line,
        address account,
        bool paying,
        RecordProof calldata job
    ) private pure returns (bool) {
        (bool found, uint256 slot) = Records.slotOf(job.record, account, paying);
        if (listed && job.index == line.lastJob) {
            return !found || job.record.links[slot].total != line.amount;
        }
        return found && job.record.links[slot].total > line.amount;
    }

    function _refute(uint256 roundId, Round calldata round) private {
        _punish(keccak256(abi.encode(roundId, "lines")), round, _params(round));
        rounds.refute(roundId);
        emit SettlementRefuted(roundId, round.scheduler);
    }

    function _punish(bytes32 offence, Round calldata round, Params memory params) private {
        _once(offence);
        _slash(SCHEDULER_POOL, round.scheduler, params.slashBpsSettlement, params, msg.sender);
    }

    function _once(bytes32 offence) private {
        if (punished[offence]) revert AlreadyPunished();
        punished[offence] = true;
    }
}
