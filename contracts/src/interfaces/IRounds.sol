// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

import {Job, RoundInfo, SettlementRecord} from "../Types.sol";

/// @notice Escrow, rounds, claims and balances. EIP-712 domain of the protocol ("VeriLLM", "1").
interface IRounds {
    event EscrowDeposited(address indexed client, address indexed scheduler, uint256 amount);
    event EscrowWithdrawalRequested(
        address indexed client, address indexed scheduler, uint256 amount, uint256 releaseBlock
    );
    event EscrowWithdrawn(address indexed client, address indexed scheduler, uint256 amount);
    event RoundCommitted(
        uint256 indexed roundId,
        address indexed scheduler,
        bytes32 indexed modelId,
        bytes32 root,
        uint256 jobs,
        uint256 verifierRequest
    );
    event VerificationsCommitted(
        uint256 indexed roundId, bytes32 root, uint256 count, uint256 positionRequest
    );
    event RoundSettled(uint256 indexed roundId, bytes32 root, uint256 totalPaid, uint256 claimableFrom);
    event JobClaimed(
        bytes32 indexed jobId, uint256 indexed roundId, address indexed client, address worker, uint256 paid
    );
    event JobVoided(bytes32 indexed jobId);
    event FeeDenied(bytes32 indexed jobId, address indexed operator);
    event JobHeld(bytes32 indexed jobId, uint256 holds);
    event BalanceWithdrawn(address indexed owner, uint256 amount);
    event CourtSet(address court);

    error AmountZero();
    error WrongTransfer(uint256 expected, uint256 received);
    error InsufficientEscrow(uint256 needed, uint256 escrow);
    error NoWithdrawalRequested();
    error WithdrawalTooEarly(uint256 releaseBlock, uint256 current);
    error NotScheduler(address sender);
    error UnknownModel(bytes32 modelId);
    error BadJobCount(uint256 jobs, uint256 limit);
    error BadRoot(bytes32 root, uint256 count);
    error UnknownRound(uint256 roundId);
    error AlreadyCommitted(uint256 roundId);
    error NotVerified(uint256 roundId);
    error AlreadySettled(uint256 roundId);
    error NotSettled(uint256 roundId);
    error SettlementTooLate(uint256 lastBlock, uint256 current);
    error WindowOpen(uint256 claimableFrom, uint256 current);
    error BadLeafProof();
    error JobMismatch();
    error JobExpired(uint256 deadline, uint256 committedTime);
    error BadJobSignature(address recovered, address client);
    error RecordInvalid(uint8 violation);
    error NotAccepted(uint8 outcome);
    error AlreadyClaimed(bytes32 jobId);
    error NonceUsed(address client, uint256 nonce);
    error JobIsVoided(bytes32 jobId);
    error JobIsHeld(bytes32 jobId);
    error ExceedsTotalPaid(uint256 claimed, uint256 totalPaid);
    error NothingToWithdraw();
    error NotDeployer(address sender);
    error NotCourt(address sender);
    error CourtAlreadySet(address court);

    /// @notice Put approved tokens into the caller's escrow with a scheduler.
    function depositEscrow(address scheduler, uint256 amount) external;

    /// @notice Announce a withdrawal; possible `escrowDelayBlocks` later. A new request replaces the last.
    function requestEscrowWithdrawal(address scheduler, uint256 amount) external;

    /// @notice Pay out the announced amount, or what claims left of it.
    function withdrawEscrow(address scheduler) external returns (uint256 amount);

    /// @notice Staked scheduler: post the root over the workers' commitments, one leaf per job (1 to 1000).
    function commitRound(bytes32 modelId, bytes32 root, uint256 jobs) external returns (uint256 roundId);

    /// @notice The round's scheduler, once randomness 1 is known. Without verifiers: root 0, count 0.
    function commitVerifications(uint256 roundId, bytes32 root, uint256 count) external;

    /// @notice The round's scheduler, once randomness 2 is known: root over one record per job. `totalPaid` is
    /// the most that its claims may debit.
    function settleRound(uint256 roundId, bytes32 root, uint256 totalPaid) external;

    /// @notice After the challenge window: pay an accepted job from the client's escrow to worker, verifiers and
    /// scheduler. Needs the client's signature on the job.
    function claim(
        uint256 roundId,
        uint256 index,
        SettlementRecord calldata record,
        bytes32[] calldata proof,
        Job calldata job,
        bytes calldata jobSignature
    ) external;

    /// @notice Pay out the caller's balance.
    function withdraw() external returns (uint256 amount);

    /// @notice Court only: the job can never be claimed; the client keeps its money.
    function voidJob(bytes32 jobId) external;

    /// @notice Court only: this verifier gets no fee for the job; the client keeps it.
    function denyFee(bytes32 jobId, address operator) external;

    /// @notice Court only: block claims of a job while a challenge is open. Holds are counted.
    function holdJob(bytes32 jobId) external;

    /// @notice Court only: undo one hold.
    function releaseJob(bytes32 jobId) external;

    /// @notice Deployer, once: name the court. The deployer has no other power.
    function setCourt(address court) external;

    function escrowOf(address client, address scheduler) external view returns (uint256);

    /// @notice The announced withdrawal (0 if none) and the first block at which it can be taken.
    function escrowWithdrawal(address client, address scheduler)
        external
        view
        returns (uint256 amount, uint256 releaseBlock);

    function balances(address owner) external view returns (uint256);

    /// @notice Everything this contract owes: escrows plus balances.
    function totalOwed() external view returns (uint256);

    /// @notice Reverts with UnknownRound.
    function getRound(uint256 roundId) external view returns (RoundInfo memory);

    function roundCount() external view returns (uint256);

    function claimed(bytes32 jobId) external view returns (bool);

    function voided(bytes32 jobId) external view returns (bool);

    function held(bytes32 jobId) external view returns (bool);

    function nonceUsed(address client, uint256 nonce) external view returns (bool);

    /// @notice First block at which the round can be claimed; 0 before it is settled.
    function claimableFrom(uint256 roundId) external view returns (uint256);

    /// @notice True while challenges about the round may be opened.
    function challengeable(uint256 roundId) external view returns (bool);

    /// @notice EIP-712 domain separator.
    function domainSeparator() external view returns (bytes32);
}
