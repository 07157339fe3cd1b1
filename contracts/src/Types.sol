// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

uint8 constant ROLE_WORKER = 0;
uint8 constant ROLE_VERIFIER = 1;

uint8 constant VERDICT_ACCEPT = 1;
uint8 constant VERDICT_REJECT = 2;
uint8 constant VERDICT_UNABLE = 3;

uint256 constant BPS = 10_000;
/// @dev The "model id" of the pool in which schedulers stake.
bytes32 constant SCHEDULER_POOL = bytes32(0);
/// @dev `Link.previous` of a party's first job in a round.
uint32 constant NO_JOB = type(uint32).max;
address constant BURN = 0x000000000000000000000000000000000000dEaD;

/// @notice Protocol parameters in the field order of `verillm/params.json`. Blocks are counts, bps are
/// 1/10,000, amounts are token wei. Each version of them lives in `Parameters`.
struct Params {
    uint128 minStake;
    uint128 disputeBond;
    uint32 epochBlocks;
    uint32 unbondingBlocks;
    uint32 escrowDelayBlocks;
    uint32 randomnessDelayBlocks;
    uint32 settleBlocks;
    uint32 challengeWindowBlocks;
    uint32 openingDeadlineBlocks;
    uint32 juryCommitBlocks;
    uint32 juryRevealBlocks;
    uint32 appealBlocks;
    uint16 jurySize;
    uint16 maxAppeals;
    uint16 maxAttempts;
    uint16 verifierSpares;
    uint16 openedPositions;
    uint16 slashBpsDivergence;
    uint16 slashBpsTokenFraud;
    uint16 slashBpsWithheld;
    uint16 slashBpsSettlement;
    uint16 slashBpsNoShow;
    uint16 challengerShareBps;
    uint16 jurorShareBps;
    uint16 verifierFeeBps;
    uint16 schedulerFeeBps;
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

/// @notice What the client signs; its EIP-712 digest is the job id. `deadline` is in unix seconds.
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

/// @notice What a verifier signs after the openings.
struct Verdict {
    bytes32 jobId;
    uint8 verdict;
    uint16 boundary;
    uint32 position;
    address operator;
}

/// @notice A round as it stands. The chain stores only its hash; every call brings the round itself, which the
/// events publish (docs/protocol.md section 6). Fields of phases to come are zero.
/// `verifierBlock` and `positionBlock` are the blocks whose prevrandao draws verifiers and positions,
/// `settleBy` is the last block for settlement, `finalBlock` the last in which the settlement can be challenged.
struct Round {
    address scheduler;
    bytes32 modelId;
    bytes32 commitRoot;
    uint32 jobs;
    uint32 paramsVersion;
    uint48 epoch;
    uint64 committedAt;
    uint64 settleBy;
    uint64 verifierBlock;
    bytes32 verifierSeed;
    bytes32 verificationRoot;
    uint32 verifications;
    uint64 positionBlock;
    bytes32 positionSeed;
    bytes32 settlementRoot;
    bytes32 debitsHash;
    bytes32 creditsHash;
    uint128 total;
    uint64 finalBlock;
}

/// @notice One account's sum over a round: what a client pays, or what an operator earns. `lastJob` is the index of
/// the account's last record.
struct Line {
    address account;
    uint32 lastJob;
    uint128 amount;
}

/// @notice A party's chain through a round's records: its job before this one (or NO_JOB), and its running total
/// including this job. It makes every wrong sum provable with two records.
struct Link {
    uint32 previous;
    uint128 total;
}

/// @notice One job's line in a settlement; leaf i belongs to job i of the round. `verdicts[i]` is of
/// `verifiers[i]`. `links` are those of client, worker, then the verifiers.
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
    Link[] links;
}

/// @notice A record with its place under the round's settlement root.
struct RecordProof {
    uint32 index;
    SettlementRecord record;
    bytes32[] proof;
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
