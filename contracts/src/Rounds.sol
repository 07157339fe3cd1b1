// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Eip712} from "./libraries/Eip712.sol";
import {Merkle} from "./libraries/Merkle.sol";
import {SettlementRules} from "./libraries/SettlementRules.sol";
import {Tags} from "./libraries/Tags.sol";
import {Randomness} from "./Randomness.sol";
import {Staking} from "./Staking.sol";
import {Job, Params, SettlementRecord} from "./Types.sol";

/// @notice Escrow and rounds: commit, verify, settle, and after the challenge window claim. A job is paid only
/// against its client's signature, from that client's escrow with the scheduler that the job names.
contract Rounds is EIP712 {
    using SafeERC20 for IERC20;

    struct Round {
        address scheduler;
        uint48 epoch;
        uint48 finalBlock;
        bytes32 modelId;
        uint64 jobs;
        uint64 verifications;
        uint64 randomnessVerifiers;
        uint64 randomnessPositions;
        bytes32 commitRoot;
        bytes32 verificationRoot;
        bytes32 settlementRoot;
        uint128 totalPaid;
        uint128 claimed;
    }

    struct Escrow {
        uint256 amount;
        uint256 leaving;
        uint256 releaseBlock;
    }

    uint256 public constant MAX_JOBS = 1000;

    IERC20 public immutable token;
    Staking public immutable staking;
    Randomness public immutable randomness;
    uint256 public immutable escrowDelayBlocks;
    uint256 public immutable challengeWindowBlocks;
    uint256 public immutable minStake;
    address private immutable _deployer;
    /// @notice The contracts that may hold or void jobs: Court and Tribunal; named once, at deployment.
    mapping(address court => bool) public isCourt;
    bool private _courtsSet;
    Params private _params;

    uint256 public roundCount;
    mapping(uint256 roundId => Round) private _rounds;
    mapping(address client => mapping(address scheduler => Escrow)) private _escrows;
    mapping(address account => uint256) public balances;
    mapping(address client => mapping(uint256 nonce => bool)) public nonceUsed;
    /// @notice By scheduler, so that a stranger's round can neither void nor hold a job that names another scheduler.
    mapping(address scheduler => mapping(bytes32 jobId => bool)) public voided;
    mapping(address scheduler => mapping(bytes32 jobId => uint256)) public holds;

    event EscrowDeposited(address indexed client, address indexed scheduler, uint256 amount);
    event EscrowLeaving(
        address indexed client, address indexed scheduler, uint256 amount, uint256 releaseBlock
    );
    event EscrowWithdrawn(address indexed client, address indexed scheduler, uint256 amount);
    event RoundCommitted(
        uint256 indexed roundId,
        address indexed scheduler,
        bytes32 indexed modelId,
        bytes32 root,
        uint256 jobs
    );
    event VerificationsCommitted(uint256 indexed roundId, bytes32 root, uint256 count);
    event RoundSettled(uint256 indexed roundId, bytes32 root, uint256 totalPaid, uint256 finalBlock);
    event JobClaimed(uint256 indexed roundId, bytes32 indexed jobId, uint8 outcome, uint256 paid);
    event JobVoided(bytes32 indexed jobId);
    event Withdrawn(address indexed account, uint256 amount);

    error NotCourt(address caller);
    error CourtsAlreadySet();
    error SchedulerNotStaked(address scheduler);
    error NotRoundScheduler(address caller);
    error JobCountInvalid(uint256 jobs, uint256 limit);
    error RoundUnknown(uint256 roundId);
    error WrongPhase(uint256 roundId);
    error WindowOpen(uint256 roundId, uint256 finalBlock);
    error RecordNotSettled(uint256 index);
    error JobMismatch(bytes32 jobId);
    error SignatureInvalid(address expected);
    error NonceUsed(address client, uint256 nonce);
    error JobIsVoided(bytes32 jobId);
    error JobIsHeld(bytes32 jobId);
    error RecordDoesNotFollow(bytes32 jobId);
    error EscrowInsufficient(uint256 requested, uint256 available);
    error TotalExceeded(uint256 roundId);
    error NothingToWithdraw();
    error TransferFeeNotSupported();

    constructor(IERC20 token_, Staking staking_, Randomness randomness_, Params memory params)
        EIP712("VeriLLM", "1")
    {
        token = token_;
        staking = staking_;
        randomness = randomness_;
        escrowDelayBlocks = params.escrowDelayBlocks;
        challengeWindowBlocks = params.challengeWindowBlocks;
        minStake = params.minStake;
        _params = params;
        _deployer = msg.sender;
    }

    modifier onlyCourt() {
        if (!isCourt[msg.sender]) revert NotCourt(msg.sender);
        _;
    }

    /// @notice One-time wiring at deployment; afterwards nobody has any special power here.
    function setCourts(address court, address tribunal) external {
        if (msg.sender != _deployer || _courtsSet) revert CourtsAlreadySet();
        _courtsSet = true;
        isCourt[court] = true;
        isCourt[tribunal] = true;
    }

    // --- escrow ---

    function depositEscrow(address scheduler, uint256 amount) external {
        _escrows[msg.sender][scheduler].amount += amount;
        emit EscrowDeposited(msg.sender, scheduler, amount);
        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(msg.sender, address(this), amount);
        if (token.balanceOf(address(this)) - before != amount) revert TransferFeeNotSupported();
    }

    /// @notice Announce leaving; the money still pays for jobs until `escrowDelayBlocks` have passed. A new request
    /// replaces the former one.
    function requestEscrowWithdrawal(address scheduler, uint256 amount) external {
        Escrow storage e = _escrows[msg.sender][scheduler];
        if (amount > e.amount) revert EscrowInsufficient(amount, e.amount);
        e.leaving = amount;
        e.releaseBlock = block.number + escrowDelayBlocks;
        emit EscrowLeaving(msg.sender, scheduler, amount, e.releaseBlock);
    }

    /// @notice Pay out what was announced, or what is left of it.
    function withdrawEscrow(address scheduler) external returns (uint256 amount) {
        Escrow storage e = _escrows[msg.sender][scheduler];
        if (block.number < e.releaseBlock) revert WindowOpen(0, e.releaseBlock);
        amount = e.leaving < e.amount ? e.leaving : e.amount;
        if (amount == 0) revert NothingToWithdraw();
        e.leaving = 0;
        e.amount -= amount;
        emit EscrowWithdrawn(msg.sender, scheduler, amount);
        token.safeTransfer(msg.sender, amount);
    }

    /// @return available escrow that is not leaving, and what is leaving.
    function escrowOf(address client, address scheduler)
        external
        view
        returns (uint256 available, uint256 leaving)
    {
        Escrow storage e = _escrows[client][scheduler];
        leaving = e.leaving < e.amount ? e.leaving : e.amount;
        available = e.amount - leaving;
    }

    // --- rounds ---

    /// @notice Post the root over a round's signed commitments; the block that will draw verifiers is fixed here.
    function commitRound(bytes32 modelId, bytes32 root, uint64 jobs) external returns (uint256 roundId) {
        if (staking.activeStake(staking.SCHEDULER_POOL(), msg.sender) < minStake) {
            revert SchedulerNotStaked(msg.sender);
        }
        if (jobs == 0 || jobs > MAX_JOBS) revert JobCountInvalid(jobs, MAX_JOBS);
        roundId = ++roundCount;
        Round storage r = _rounds[roundId];
        r.scheduler = msg.sender;
        r.epoch = staking.epoch();
        r.modelId = modelId;
        r.commitRoot = root;
        r.jobs = jobs;
        r.randomnessVerifiers = uint64(randomness.request());
        emit RoundCommitted(roundId, msg.sender, modelId, root, jobs);
    }

    /// @notice Post the root over the verifiers' commitments; the block that picks positions is fixed here.
    function commitVerifications(uint256 roundId, bytes32 root, uint64 count) external {
        Round storage r = _own(roundId);
        if (r.randomnessPositions != 0) revert WrongPhase(roundId);
        randomness.value(r.randomnessVerifiers);
        r.verificationRoot = root;
        r.verifications = count;
        r.randomnessPositions = uint64(randomness.request());
        emit VerificationsCommitted(roundId, root, count);
    }

    /// @notice Post the root over the settlement records (one per job) and the most that they pay together.
    function settleRound(uint256 roundId, bytes32 root, uint128 totalPaid) external {
        Round storage r = _own(roundId);
        if (r.randomnessPositions == 0 || r.finalBlock != 0) revert WrongPhase(roundId);
        randomness.value(r.randomnessPositions);
        r.settlementRoot = root;
        r.totalPaid = totalPaid;
        r.finalBlock = uint48(block.number + challengeWindowBlocks);
        emit RoundSettled(roundId, root, totalPaid, r.finalBlock);
    }

    /// @notice Pay one job out of its client's escrow. Anyone may call; the money goes to `balances`.
    function claim(
        uint256 roundId,
        uint256 index,
        SettlementRecord calldata record,
        bytes32[] calldata proof,
        Job calldata job,
        bytes calldata jobSignature
    ) external {
        Round storage r = _rounds[roundId];
        if (r.finalBlock == 0) revert WrongPhase(roundId);
        if (block.number <= r.finalBlock) revert WindowOpen(roundId, r.finalBlock);
        checkRecord(roundId, index, record, proof);
        bytes32 id = jobId(job);
        if (id != record.jobId || job.scheduler != r.scheduler || job.modelId != r.modelId) {
            revert JobMismatch(id);
        }
        if (ECDSA.recover(id, jobSignature) != job.client) revert SignatureInvalid(job.client);
        if (voided[r.scheduler][id]) revert JobIsVoided(id);
        if (holds[r.scheduler][id] != 0) revert JobIsHeld(id);
        if (!SettlementRules.follows(job, record, _params)) revert RecordDoesNotFollow(id);
        if (nonceUsed[job.client][job.nonce]) revert NonceUsed(job.client, job.nonce);
        nonceUsed[job.client][job.nonce] = true;

        uint256 paid = SettlementRules.total(record);
        if (paid + r.claimed > r.totalPaid) revert TotalExceeded(roundId);
        r.claimed += uint128(paid);
        Escrow storage e = _escrows[job.client][r.scheduler];
        if (paid > e.amount) revert EscrowInsufficient(paid, e.amount);
        e.amount -= paid;
        balances[record.worker] += record.workerFee;
        balances[r.scheduler] += record.schedulerFee;
        for (uint256 i; i < record.verifiers.length; ++i) {
            balances[record.verifiers[i]] += record.verifierFee;
        }
        emit JobClaimed(roundId, id, record.outcome, paid);
    }

    function withdraw() external returns (uint256 amount) {
        amount = balances[msg.sender];
        if (amount == 0) revert NothingToWithdraw();
        balances[msg.sender] = 0;
        emit Withdrawn(msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    // --- for the court ---

    /// @notice A held job cannot be claimed; every hold is released when its dispute ends.
    function hold(address scheduler, bytes32 id) external onlyCourt {
        ++holds[scheduler][id];
    }

    function release(address scheduler, bytes32 id) external onlyCourt {
        --holds[scheduler][id];
    }

    /// @notice A void job is never paid; its client's escrow stays whole.
    function voidJob(address scheduler, bytes32 id) external onlyCourt {
        voided[scheduler][id] = true;
        emit JobVoided(id);
    }

    // --- views ---

    function round(uint256 roundId) external view returns (Round memory r) {
        r = _rounds[roundId];
        if (r.scheduler == address(0)) revert RoundUnknown(roundId);
    }

    function domainSeparator() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @notice The EIP-712 digest that the client signed.
    function jobId(Job calldata job) public view returns (bytes32) {
        return _hashTypedDataV4(Eip712.hash(job));
    }

    /// @notice Reverts unless the record is leaf `index` of the round's settlement.
    function checkRecord(
        uint256 roundId,
        uint256 index,
        SettlementRecord calldata record,
        bytes32[] calldata proof
    ) public view {
        Round storage r = _rounds[roundId];
        bytes32 leaf = keccak256(bytes.concat(bytes1(Tags.SETTLEMENT_LEAF), abi.encode(record)));
        if (Merkle.rootFrom(leaf, index, r.jobs, proof) != r.settlementRoot) revert RecordNotSettled(index);
    }

    function params() external view returns (Params memory) {
        return _params;
    }

    function _own(uint256 roundId) private view returns (Round storage r) {
        r = _rounds[roundId];
        if (r.scheduler == address(0)) revert RoundUnknown(roundId);
        if (r.scheduler != msg.sender) revert NotRoundScheduler(msg.sender);
    }
}
