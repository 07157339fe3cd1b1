// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Bank} from "./Bank.sol";
import {Parameters} from "./Parameters.sol";
import {Staking} from "./Staking.sol";
import {IRandomness} from "./interfaces/IRandomness.sol";
import {Eip712} from "./libraries/Eip712.sol";
import {Records} from "./libraries/Records.sol";
import {Job, Line, RecordProof, Round, SCHEDULER_POOL} from "./Types.sol";

/// @notice Rounds of jobs: commit, verify, settle, and after the challenge window pay. The chain keeps one hash of each
/// round; calls bring the round itself. The settlement lists what each client pays, which is taken from its escrow
/// at once, and what each operator earns, which can be no more.
contract Rounds is EIP712, Bank {
    /// @notice What challenges did to a round; `cursor` counts the lines that were paid or refunded.
    struct Pending {
        uint32 holds;
        uint32 voidsOpen;
        uint32 voids;
        uint32 cursor;
        bool refuted;
    }

    enum JobState {
        Standing,
        Voided,
        Deducted
    }

    uint256 public constant MAX_JOBS = 1 << 16;
    IRandomness public immutable randomness;
    uint256 private immutable _epochBlocks;

    uint256 public roundCount;
    /// @notice Hash of the round as it stands, its complement once the round is paid or refunded, 0 if there is none.
    mapping(uint256 roundId => bytes32) public stateOf;
    mapping(uint256 roundId => Pending) private _pending;
    mapping(uint256 roundId => mapping(uint256 index => JobState)) public jobState;
    /// @dev Per round: what voided jobs took from an operator's credit, or gave back of a client's debit.
    mapping(uint256 roundId => mapping(address operator => uint128)) private _deducted;
    mapping(uint256 roundId => mapping(address client => uint128)) private _refunded;
    mapping(uint256 roundId => uint128) private _schedulerDeducted;

    event RoundCommitted(
        uint256 indexed roundId, address indexed scheduler, bytes32 indexed modelId, Round round
    );
    event RoundRequeued(uint256 indexed roundId, uint64 targetBlock);
    event VerificationsCommitted(
        uint256 indexed roundId, bytes32 root, uint32 count, bytes32 verifierSeed, uint64 positionBlock
    );
    event RoundSettled(
        uint256 indexed roundId,
        bytes32 root,
        bytes32 positionSeed,
        uint64 finalBlock,
        Line[] debits,
        Line[] credits
    );
    event RoundPaid(uint256 indexed roundId, uint256 schedulerAmount);
    event RoundRefunded(uint256 indexed roundId);
    event RoundRefuted(uint256 indexed roundId);
    event JobVoided(uint256 indexed roundId, uint256 indexed index);
    event JobDeducted(uint256 indexed roundId, uint256 indexed index, uint256 refund);

    error RoundsPaused();
    error SchedulerNotStaked(address scheduler);
    error NotRoundScheduler(address caller);
    error JobCountInvalid(uint256 jobs, uint256 limit);
    error RoundUnknown(uint256 roundId);
    error RoundClosed(uint256 roundId);
    error RoundMismatch(uint256 roundId);
    error WrongPhase(uint256 roundId);
    error SettleTooLate(uint256 roundId, uint256 settleBy);
    error SeedStillAvailable(uint256 blockNumber);
    error LinesNotSorted(uint256 index);
    error LinesMismatch(uint256 roundId);
    error CreditsExceedDebits(uint256 credits, uint256 debits);
    error WindowOpen(uint256 roundId, uint256 finalBlock);
    error RoundHeld(uint256 roundId);
    error VoidsNotDeducted(uint256 roundId, uint256 count);
    error RoundIsRefuted(uint256 roundId);
    error NotRefuted(uint256 roundId);
    error CursorInvalid(uint256 upTo, uint256 limit);
    error JobNotVoided(uint256 index);

    constructor(IERC20 token_, Staking staking_, IRandomness randomness_, Parameters parameters_)
        EIP712("VeriLLM", "1")
        Bank(token_, address(staking_), parameters_)
    {
        randomness = randomness_;
        _epochBlocks = parameters_.current().epochBlocks;
    }

    // --- a round's way ---

    /// @notice Post the root over a round's signed commitments; the block that will draw verifiers is fixed here.
    function commitRound(bytes32 modelId, bytes32 root, uint32 jobs) external returns (uint256 roundId) {
        (uint32 version, bool paused, uint256 minStake, uint256 delay, uint256 settleBlocks) =
            parameters.forRound();
        if (paused) revert RoundsPaused();
        if (Staking(staking).activeStake(SCHEDULER_POOL, msg.sender) < minStake) {
            revert SchedulerNotStaked(msg.sender);
        }
        if (jobs == 0 || jobs > MAX_JOBS) revert JobCountInvalid(jobs, MAX_JOBS);
        roundId = ++roundCount;
        Round memory r;
        r.scheduler = msg.sender;
        r.modelId = modelId;
        r.commitRoot = root;
        r.jobs = jobs;
        r.paramsVersion = version;
        r.epoch = uint48(block.number / _epochBlocks);
        r.committedAt = uint64(block.timestamp);
        r.settleBy = uint64(block.number + settleBlocks);
        r.verifierBlock = uint64(block.number + delay);
        _save(roundId, r);
        emit RoundCommitted(roundId, msg.sender, modelId, r);
    }

    /// @notice Post the root over the verifiers' commitments; the block that picks positions is fixed here.
    /// @param header RLP header of `verifierBlock`, or empty if its value was poked.
    function commitVerifications(
        uint256 roundId,
        Round calldata round,
        bytes32 root,
        uint32 count,
        bytes calldata header
    ) external {
        _checkOwn(roundId, round);
        if (round.positionBlock != 0) revert WrongPhase(roundId);
        if (block.number > round.settleBy) revert SettleTooLate(roundId, round.settleBy);
        Round memory r = round;
        r.verifierSeed = _seed(round.verifierBlock, header);
        r.verificationRoot = root;
        r.verifications = count;
        (uint256 delay,) = parameters.delays(round.paramsVersion);
        r.positionBlock = uint64(block.number + delay);
        _save(roundId, r);
        emit VerificationsCommitted(roundId, root, count, r.verifierSeed, r.positionBlock);
    }

    /// @notice Post the root over the settlement records and the sums by account that follow from them: what clients
    /// pay, taken from their escrow now, and what operators earn. The rest is the scheduler's. Both lists are
    /// sorted by account.
    /// @param header RLP header of `positionBlock`, or empty if its value was poked.
    function settleRound(
        uint256 roundId,
        Round calldata round,
        bytes32 root,
        Line[] calldata debits,
        Line[] calldata credits,
        bytes calldata header
    ) external {
        _checkOwn(roundId, round);
        if (round.positionBlock == 0 || round.finalBlock != 0) revert WrongPhase(roundId);
        if (block.number > round.settleBy) revert SettleTooLate(roundId, round.settleBy);
        Round memory r = round;
        r.positionSeed = _seed(round.positionBlock, header);
        r.settlementRoot = root;
        r.debitsHash = keccak256(abi.encode(debits));
        r.creditsHash = keccak256(abi.encode(credits));
        r.total = _sum(debits);
        uint128 earned = _sum(credits);
        if (earned > r.total) revert CreditsExceedDebits(earned, r.total);
        (, uint256 window) = parameters.delays(round.paramsVersion);
        r.finalBlock = uint64(block.number + window);
        _save(roundId, r);
        for (uint256 i; i < debits.length; ++i) {
            _debit(debits[i].account, msg.sender, debits[i].amount);
        }
        emit RoundSettled(roundId, root, r.positionSeed, r.finalBlock, debits, credits);
    }

    /// @notice Nobody showed the seed of the pending block in time: the same commitment waits for a new block.
    function requeue(uint256 roundId, Round calldata round) external {
        check(roundId, round);
        if (round.finalBlock != 0) revert WrongPhase(roundId);
        bool verifying = round.positionBlock == 0;
        uint64 target = verifying ? round.verifierBlock : round.positionBlock;
        if (!randomness.expired(target)) revert SeedStillAvailable(target);
        (uint256 delay,) = parameters.delays(round.paramsVersion);
        uint64 next = uint64(block.number + delay);
        Round memory r = round;
        if (verifying) r.verifierBlock = next;
        else r.positionBlock = next;
        _save(roundId, r);
        emit RoundRequeued(roundId, next);
    }

    /// @notice Credit a final round's earnings, of the next lines up to `upTo`; the last call closes the round. Anyone.
    function payRound(uint256 roundId, Round calldata round, Line[] calldata credits, uint256 upTo) external {
        check(roundId, round);
        Pending storage p = _pending[roundId];
        if (round.finalBlock == 0) revert WrongPhase(roundId);
        if (block.number <= round.finalBlock) revert WindowOpen(roundId, round.finalBlock);
        if (p.refuted) revert RoundIsRefuted(roundId);
        if (p.holds > 0) revert RoundHeld(roundId);
        if (p.voidsOpen > 0) revert VoidsNotDeducted(roundId, p.voidsOpen);
        if (keccak256(abi.encode(credits)) != round.creditsHash) revert LinesMismatch(roundId);
        (uint256 from, bool last) = _advance(roundId, credits.length, upTo);
        bool deducted = p.voids > 0;
        for (uint256 i = from; i < upTo; ++i) {
            uint256 amount = credits[i].amount;
            if (deducted) amount -= _deducted[roundId][credits[i].account];
            balances[credits[i].account] += amount;
        }
        if (!last) return;
        uint256 share = round.total - _sum(credits) - (deducted ? _schedulerDeducted[roundId] : 0);
        balances[round.scheduler] += share;
        emit RoundPaid(roundId, share);
    }

    /// @notice Take a voided job out of a settled round: its client gets back what it paid. A record that the lines
    /// do not cover proves the lines wrong, and refutes the round.
    function deductJob(
        uint256 roundId,
        Round calldata round,
        RecordProof calldata job,
        Line[] calldata debits,
        Line[] calldata credits
    ) external {
        check(roundId, round);
        Pending storage p = _pending[roundId];
        if (p.refuted) revert RoundIsRefuted(roundId);
        if (jobState[roundId][job.index] != JobState.Voided) revert JobNotVoided(job.index);
        Records.check(round, job);
        _checkLines(roundId, round, debits, credits);
        jobState[roundId][job.index] = JobState.Deducted;
        --p.voidsOpen;
        uint256 refund = Records.total(job.record);
        if (!_takeBack(roundId, round, job, refund, debits, credits)) {
            _refute(roundId);
            return;
        }
        _refund(job.record.client, round.scheduler, uint128(refund));
        emit JobDeducted(roundId, job.index, refund);
    }

    /// @notice Give the clients of a refuted round their money back, of the next lines up to `upTo`; the last call
    /// closes the round. Anyone. In pages, since a refund can cost more gas than the settlement that took the money.
    function refundRound(uint256 roundId, Round calldata round, Line[] calldata debits, uint256 upTo)
        external
    {
        check(roundId, round);
        if (!_pending[roundId].refuted) revert NotRefuted(roundId);
        if (keccak256(abi.encode(debits)) != round.debitsHash) revert LinesMismatch(roundId);
        (uint256 from, bool last) = _advance(roundId, debits.length, upTo);
        for (uint256 i = from; i < upTo; ++i) {
            address client = debits[i].account;
            _refund(client, round.scheduler, debits[i].amount - _refunded[roundId][client]);
        }
        if (last) emit RoundRefunded(roundId);
    }

    // --- courts ---

    /// @notice A round that is held is not paid; every hold is released when its dispute ends.
    function hold(uint256 roundId) external onlyCourt {
        ++_pending[roundId].holds;
    }

    function release(uint256 roundId) external onlyCourt {
        --_pending[roundId].holds;
    }

    /// @notice A void job is never paid.
    function voidJob(uint256 roundId, uint256 index) external onlyCourt {
        if (jobState[roundId][index] != JobState.Standing) return;
        jobState[roundId][index] = JobState.Voided;
        ++_pending[roundId].voidsOpen;
        ++_pending[roundId].voids;
        emit JobVoided(roundId, index);
    }

    /// @notice The whole settlement is void: clients are refunded, nobody is paid.
    function refute(uint256 roundId) external onlyCourt {
        _refute(roundId);
    }

    // --- views ---

    /// @notice Reverts unless `round` is how the round stands and it is neither paid nor refunded.
    function check(uint256 roundId, Round calldata round) public view {
        if (!checkAny(roundId, round)) revert RoundClosed(roundId);
    }

    /// @notice Like check, for rounds that may be closed. False if it is.
    function checkAny(uint256 roundId, Round calldata round) public view returns (bool open) {
        bytes32 state = stateOf[roundId];
        if (state == 0) revert RoundUnknown(roundId);
        bytes32 hash = Records.stateHash(round);
        if (state == ~hash) return false;
        if (state != hash) revert RoundMismatch(roundId);
        return true;
    }

    function pending(uint256 roundId) external view returns (Pending memory) {
        return _pending[roundId];
    }

    function domainSeparator() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @notice The EIP-712 digest that the client signed.
    function jobId(Job calldata job) external view returns (bytes32) {
        return _hashTypedDataV4(Eip712.hash(job));
    }

    // --- internals ---

    function _checkOwn(uint256 roundId, Round calldata round) private view {
        check(roundId, round);
        if (round.scheduler != msg.sender) revert NotRoundScheduler(msg.sender);
    }

    function _checkLines(
        uint256 roundId,
        Round calldata round,
        Line[] calldata debits,
        Line[] calldata credits
    ) private pure {
        if (
            keccak256(abi.encode(debits)) != round.debitsHash
                || keccak256(abi.encode(credits)) != round.creditsHash
        ) revert LinesMismatch(roundId);
    }

    function _save(uint256 roundId, Round memory round) private {
        stateOf[roundId] = keccak256(abi.encode(round));
    }

    function _seed(uint256 blockNumber, bytes calldata header) private view returns (bytes32) {
        return header.length == 0 ? randomness.valueOf(blockNumber) : randomness.prove(blockNumber, header);
    }

    /// @dev Move the round's cursor over its next lines; behind the last one the round closes.
    function _advance(uint256 roundId, uint256 lines, uint256 upTo)
        private
        returns (uint256 from, bool last)
    {
        from = _pending[roundId].cursor;
        last = upTo == lines;
        if (upTo > lines || (upTo <= from && !last)) revert CursorInvalid(upTo, lines);
        if (last) stateOf[roundId] = ~stateOf[roundId];
        else _pending[roundId].cursor = uint32(upTo);
    }

    function _refute(uint256 roundId) private {
        _pending[roundId].refuted = true;
        emit RoundRefuted(roundId);
    }

    /// @dev Sum of lines that are sorted by account without repetition.
    function _sum(Line[] calldata lines) private pure returns (uint128 total) {
        address last;
        for (uint256 i; i < lines.length; ++i) {
            if (lines[i].account <= last) revert LinesNotSorted(i);
            last = lines[i].account;
            total += lines[i].amount;
        }
    }

    /// @dev Note what each party of the job gives back. False if a line holds less than the record pays.
    function _takeBack(
        uint256 roundId,
        Round calldata round,
        RecordProof calldata job,
        uint256 refund,
        Line[] calldata debits,
        Line[] calldata credits
    ) private returns (bool) {
        uint256 paid = Records.amountOf(debits, job.record.client) - _refunded[roundId][job.record.client];
        if (refund > paid) return false;
        if (!_reduce(roundId, job.record.worker, job.record.workerFee, credits)) return false;
        for (uint256 i; i < job.record.verifiers.length; ++i) {
            if (!_reduce(roundId, job.record.verifiers[i], job.record.verifierFee, credits)) return false;
        }
        uint256 left = round.total - _sum(credits) - _schedulerDeducted[roundId];
        if (job.record.schedulerFee > left) return false;
        _schedulerDeducted[roundId] += job.record.schedulerFee;
        _refunded[roundId][job.record.client] += uint128(refund);
        return true;
    }

    function _reduce(uint256 roundId, address operator, uint128 amount, Line[] calldata credits)
        private
        returns (bool)
    {
        if (amount == 0) return true;
        uint256 left = Records.amountOf(credits, operator) - _deducted[roundId][operator];
        if (amount > left) return false;
        _deducted[roundId][operator] += amount;
        return true;
    }
}
