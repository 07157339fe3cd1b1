// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

uint8 constant ROLE_WORKER = 0;
uint8 constant ROLE_VERIFIER = 1;

uint8 constant VERDICT_ACCEPT = 1;
uint8 constant VERDICT_REJECT = 2;
uint8 constant VERDICT_UNABLE = 3;

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

/// @notice What the job root is made of beyond the commitment and the model id.
struct JobRootParts {
    bytes32 tokenRoot;
    uint16 boundaries;
    bytes32 boundariesRoot;
}

/// @notice A signed commitment, its leaf in the round's (worker) or verifications' (verifier) root, and the
/// preimage of its job root.
struct CommitmentProof {
    Commitment commitment;
    bytes signature;
    uint256 leafIndex;
    bytes32[] leafProof;
    JobRootParts parts;
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

/// @notice A row of the output matrix, in the weight dtype, with its proof in `outputMatrixRoot`.
struct MatrixRow {
    uint32 token;
    bytes row;
    bytes32[] proof;
}
