// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// @notice Protocol parameters in the field order of `verillm/params.json`. Blocks are counts, bps are
/// 1/10,000, amounts are token wei.
struct Params {
    uint256 epochBlocks;
    uint256 unbondingBlocks;
    uint256 escrowDelayBlocks;
    uint256 randomnessDelayBlocks;
    uint256 challengeWindowBlocks;
    uint256 openingDeadlineBlocks;
    uint256 juryCommitBlocks;
    uint256 juryRevealBlocks;
    uint256 jurySize;
    uint256 minStake;
    uint256 disputeBond;
    uint256 slashBpsDivergence;
    uint256 slashBpsTokenFraud;
    uint256 slashBpsWithheld;
    uint256 slashBpsSettlement;
    uint256 slashBpsNoShow;
    uint256 challengerShareBps;
    uint256 jurorShareBps;
    uint256 verifierFeeBps;
    uint256 schedulerFeeBps;
    uint256 openedPositions;
}

/// @notice The part of a manifest that the contracts need; `keccak256(abi.encode(spec))` is the model id.
struct ModelSpec {
    bytes32 manifestHash;
    bytes32 outputMatrixRoot;
    uint32 hiddenSize;
    uint32 vocabSize;
    uint8 rowDtype;
    uint8 weightDtype;
    uint64 tokenMarginQ24;
    uint64[] rowToleranceQ40;
}

/// @notice What the client signs; its EIP-712 digest is the job id.
struct Job {
    address client;
    address scheduler;
    bytes32 modelId;
    bytes32 promptHash;
    uint32 promptTokens;
    uint32 maxOutputTokens;
    bytes32 stopHash;
    uint32 temperaturePpm;
    uint32 topK;
    uint32 topPPpm;
    uint64 seed;
    uint128 inputPrice;
    uint128 outputPrice;
    uint8 verifiers;
    uint64 deadline;
    uint256 nonce;
}

/// @notice What an operator signs before anything is opened. Role 0 is worker, 1 verifier.
struct Commitment {
    bytes32 jobId;
    uint8 role;
    uint32 attempt;
    bytes32 jobRoot;
    uint32 promptTokens;
    uint32 outputTokens;
    uint8 finishReason;
    address operator;
}

/// @notice A verifier's signed word: 1 accept, 2 reject, 3 unable.
struct Verdict {
    bytes32 jobId;
    uint8 verdict;
    uint16 boundary;
    uint32 position;
    address operator;
}

/// @notice One job's line in a settlement. `verdicts[i]` belongs to `verifiers[i]`.
struct SettlementRecord {
    bytes32 jobId;
    address client;
    address worker;
    uint32 promptTokens;
    uint32 outputTokens;
    uint8 outcome;
    uint128 workerFee;
    uint128 verifierFee;
    uint128 schedulerFee;
    address[] verifiers;
    uint8[] verdicts;
}

/// @notice A signed commitment and its leaf in the round's (worker) or verifications' (verifier) root.
struct CommitmentProof {
    Commitment c;
    bytes signature;
    uint256 leafIndex;
    bytes32[] leafProof;
}

/// @notice What the job root is made of beyond the commitment and the model id.
struct JobRootParts {
    bytes32 tokenRoot;
    uint16 boundaries;
    bytes32 boundariesRoot;
}

/// @notice One committed row with its proof in the boundary and the boundary's among all.
/// `row` is the row's storage bytes, `token` the id fed at `position`.
struct RowOpening {
    uint16 boundary;
    uint32 position;
    uint32 token;
    bytes row;
    bytes32[] rowProof;
    bytes32[] boundaryProof;
}

/// @notice One side of a dispute.
struct OpenedRow {
    CommitmentProof commitment;
    JobRootParts parts;
    RowOpening opening;
}

/// @notice A row of the output matrix, in the weight dtype, with its proof in `outputMatrixRoot`.
struct MatrixRow {
    uint32 token;
    bytes row;
    bytes32[] proof;
}

/// @notice A settlement record with its place in the settlement root (one leaf per job of the round).
struct RecordProof {
    SettlementRecord record;
    uint256 leafIndex;
    bytes32[] leafProof;
}

/// @notice A round as seen from outside; requests and roots are 0 until they are made.
struct RoundInfo {
    address scheduler;
    bytes32 modelId;
    bytes32 root;
    uint256 jobs;
    uint256 verifierRequest;
    bytes32 verificationRoot;
    uint256 verifications;
    uint256 positionRequest;
    bytes32 settlementRoot;
    uint256 settledBlock;
    uint256 committedBlock;
    uint256 committedTime;
    uint256 totalPaid;
    uint256 claimedTotal;
}
