// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

import {
    Commitment,
    CommitmentProof,
    Job,
    JobRootParts,
    MatrixRow,
    OpenedRow,
    RecordProof,
    RowOpening,
    Verdict
} from "../Types.sol";

/// @notice Challenges (protocol, section 7). Every challenge names a round in which it is still open to
/// challenge, and the job whose scheduler posted that round. Bonds are `disputeBond` of approved tokens.
interface ICourt {
    enum Stage {
        None,
        Opened,
        Voting,
        Resolved
    }
    enum Outcome {
        Pending,
        ClaimantRight,
        AccusedRight,
        Void
    }

    struct DisputeInfo {
        Stage stage;
        Outcome outcome;
        uint256 roundId;
        bytes32 jobId;
        bytes32 modelId;
        address challenger;
        address claimant;
        address accused;
        uint16 boundary;
        uint32 position;
        bytes32 claimantRowHash;
        bytes32 accusedRowHash;
        uint256 epoch;
        uint256 randomnessRequest;
        uint256 commitDeadline;
        uint256 revealDeadline;
        uint256 votesForClaimant;
        uint256 votesForAccused;
        address[] jurors;
    }

    struct DemandInfo {
        bool open;
        uint256 roundId;
        bytes32 jobId;
        bytes32 modelId;
        address challenger;
        uint16 boundary;
        uint32 position;
        uint256 deadline;
        Commitment commitment;
    }

    struct ContestInfo {
        bool open;
        uint256 roundId;
        bytes32 jobId;
        bytes32 modelId;
        address challenger;
        address scheduler;
        address verifier;
        uint8 recorded;
        uint256 deadline;
    }

    event TokenFraudProven(
        uint256 indexed roundId,
        bytes32 indexed jobId,
        address indexed worker,
        uint32 position,
        int256 margin,
        address challenger
    );
    /// @notice Jurors take both rows, which `revealVote` needs, from this event.
    event DisputeOpened(
        uint256 indexed disputeId,
        uint256 indexed roundId,
        bytes32 indexed jobId,
        address claimant,
        address accused,
        uint16 boundary,
        uint32 position,
        uint256 randomnessRequest,
        bytes claimantRow,
        bytes accusedRow
    );
    event JuryDrawn(
        uint256 indexed disputeId, address[] jurors, uint256 commitDeadline, uint256 revealDeadline
    );
    event VoteCommitted(uint256 indexed disputeId, address indexed juror);
    /// @param vote 1 for the claimant, 2 for the accused, 3 for neither.
    event VoteRevealed(uint256 indexed disputeId, address indexed juror, uint8 vote);
    event DisputeResolved(uint256 indexed disputeId, Outcome outcome, address loser);
    event OpeningDemanded(
        uint256 indexed demandId,
        uint256 indexed roundId,
        bytes32 indexed jobId,
        address operator,
        uint16 boundary,
        uint32 position,
        uint256 deadline
    );
    event OpeningAnswered(uint256 indexed demandId, JobRootParts parts, RowOpening opening);
    event OpeningWithheld(uint256 indexed demandId, address operator);
    /// @param violation see `RecordRules`.
    event SettlementFalse(
        uint256 indexed roundId, bytes32 indexed jobId, address indexed scheduler, uint8 violation
    );
    event VerdictContested(
        uint256 indexed contestId,
        uint256 indexed roundId,
        bytes32 indexed jobId,
        address verifier,
        uint256 deadline
    );
    event VerdictAnswered(uint256 indexed contestId, address verifier);
    event Punished(
        bytes32 indexed poolId,
        address indexed owner,
        uint256 amount,
        uint256 toChallenger,
        uint256 toJurors,
        uint256 burned
    );
    event RewardWithdrawn(address indexed owner, uint256 amount);

    error NotChallengeable(uint256 roundId);
    error JobMismatch();
    error BadLeafProof();
    error BadSignature(address recovered, address expected);
    error WrongRole(uint8 role);
    error BadCounts(uint32 promptTokens, uint32 outputTokens);
    error BoundaryOutOfRange(uint16 boundary, uint256 count);
    error PositionOutOfRange(uint32 position, uint256 first, uint256 end);
    error TokenOutOfRange(uint32 token, uint32 vocabSize);
    error BadOpening();
    error BadMatrixProof(uint32 token);
    error MaskedJob();
    error SameToken(uint32 token);
    error NoFraud(int256 margin, uint64 limit);
    error AlreadyPunished(bytes32 jobId, address operator);
    error SameOperator(address operator);
    error DifferentRows();
    error RowsAgree(uint256 d, uint256 n, uint64 toleranceQ40);
    error AlreadyDisputed(bytes32 jobId);
    error WrongStage(Stage stage);
    error NotJuror(address sender);
    error AlreadyVoted(address juror);
    error TooLate(uint256 deadline, uint256 current);
    error TooEarly(uint256 deadline, uint256 current);
    error BadReveal();
    error PositionNotOpened(uint32 position);
    error NotOpen(uint256 id);
    error RecordNotInSettlement();
    error NoContradiction();
    error NotVerifierOfRecord(address verifier);
    error WrongTransfer(uint256 expected, uint256 received);
    error NothingToWithdraw();

    struct TokenFraud {
        Job job;
        OpenedRow worker;
        bytes32[] tokenProof;
        MatrixRow claimed;
        MatrixRow better;
    }

    /// @notice Prove that the token at position t + 1 was not sampled from the worker's final row at t.
    /// `worker.opening` is at the last boundary; `tokenProof` proves `claimed.token` at t + 1 in the token root.
    function proveTokenFraud(uint256 roundId, TokenFraud calldata proof) external;

    /// @notice Say that `accused`'s row is wrong and `claimant`'s right (same boundary and position). Bonded.
    function openDispute(
        uint256 roundId,
        Job calldata job,
        OpenedRow calldata claimant,
        OpenedRow calldata accused
    ) external returns (uint256 disputeId);

    /// @notice Anyone, once the dispute's randomness is known: draw the jury. With fewer than a majority of
    /// jury_size drawn the dispute is void.
    function drawJury(uint256 disputeId) external;

    /// @notice Juror, until the commit deadline: H(0x0c || chainId u256 || court(20) || disputeId u256 ||
    /// juror(20) || H(row) || salt).
    function commitVote(uint256 disputeId, bytes32 commitment) external;

    /// @notice Juror, after the commit and until the reveal deadline: its own row and the two disputed ones.
    function revealVote(
        uint256 disputeId,
        bytes calldata row,
        bytes32 salt,
        bytes calldata claimantRow,
        bytes calldata accusedRow
    ) external;

    /// @notice Anyone, after the reveal deadline.
    function resolve(uint256 disputeId) external;

    /// @notice Force an operator to open a row at one of the job's drawn positions. Bonded.
    function demandOpening(
        uint256 roundId,
        Job calldata job,
        CommitmentProof calldata target,
        uint16 boundary,
        uint32 position
    ) external returns (uint256 demandId);

    /// @notice Anyone: the demanded row. The bond goes to the operator.
    function answerOpening(uint256 demandId, JobRootParts calldata parts, RowOpening calldata opening)
        external;

    /// @notice Anyone, after the deadline.
    function slashWithheld(uint256 demandId) external;

    /// @notice Prove that a settlement record contradicts the job, the fee formula, the outcome rule, or, if
    /// `evidence.signature` is not empty, a commitment of the round (counts, worker, a verifier left out).
    function challengeSettlement(
        uint256 roundId,
        Job calldata job,
        RecordProof calldata record,
        CommitmentProof calldata evidence
    ) external;

    /// @notice Show a verifier's signed verdict that differs from the record's. Bonded, because a verifier may
    /// have signed both: the scheduler answers with the one that it recorded.
    function contestVerdict(
        uint256 roundId,
        Job calldata job,
        RecordProof calldata record,
        Verdict calldata verdict,
        bytes calldata signature
    ) external returns (uint256 contestId);

    /// @notice Anyone, until the deadline: the verdict as recorded, signed. The verifier is slashed.
    function answerVerdict(uint256 contestId, Verdict calldata verdict, bytes calldata signature) external;

    /// @notice Anyone, after the deadline of an unanswered contest: the scheduler is slashed.
    function resolveContest(uint256 contestId) external;

    /// @notice Pay out the caller's rewards and returned bonds.
    function withdraw() external returns (uint256 amount);

    function rewards(address owner) external view returns (uint256);

    /// @notice Everything this contract owes: open bonds plus rewards.
    function totalOwed() external view returns (uint256);

    function getDispute(uint256 disputeId) external view returns (DisputeInfo memory);

    function getDemand(uint256 demandId) external view returns (DemandInfo memory);

    function getContest(uint256 contestId) external view returns (ContestInfo memory);

    /// @notice A juror's hidden vote (0 if none) and its revealed one (0 if none).
    function voteOf(uint256 disputeId, address juror)
        external
        view
        returns (bytes32 commitment, uint8 vote);
}
