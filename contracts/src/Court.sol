// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Comparator} from "./libraries/Comparator.sol";
import {Opening} from "./libraries/Opening.sol";
import {Tags} from "./libraries/Tags.sol";
import {Judge} from "./Judge.sol";
import {Randomness} from "./Randomness.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {Commitment, CommitmentProof, ModelSpec, Params, ROLE_WORKER, RowOpening} from "./Types.sol";

/// @notice Divergence of two committed rows, judged by a jury that reveals its own values.
contract Court is Judge {
    using SafeERC20 for IERC20;

    enum State {
        None,
        AwaitingJury,
        Voting,
        Resolved
    }

    struct Dispute {
        State state;
        uint16 boundary;
        uint32 position;
        uint48 epoch;
        uint48 commitDeadline;
        uint48 revealDeadline;
        uint64 randomnessId;
        bytes32 jobId;
        bytes32 modelId;
        bytes32 tokenRoot;
        address first;
        address second;
        bytes32 firstRowHash;
        bytes32 secondRowHash;
        address challenger;
        bool firstIsWorker;
        bool secondIsWorker;
        address[] jurors;
    }

    struct Vote {
        bytes32 commitment;
        bool revealed;
        uint8 side; // 0 neither, 1 first, 2 second
    }

    Randomness public immutable randomness;

    uint256 public disputeCount;
    mapping(uint256 disputeId => Dispute) private _disputes;
    mapping(uint256 disputeId => address) private _schedulers;
    mapping(uint256 disputeId => mapping(address juror => Vote)) private _votes;
    mapping(bytes32 pair => bool) public disputed;
    mapping(bytes32 jobId => mapping(address operator => bool)) public slashedFor;

    event DisputeOpened(
        uint256 indexed disputeId,
        bytes32 indexed jobId,
        address first,
        address second,
        uint16 boundary,
        uint32 position,
        bytes firstRow,
        bytes secondRow
    );
    event JuryDrawn(
        uint256 indexed disputeId, address[] jurors, uint256 commitDeadline, uint256 revealDeadline
    );
    event VoteCommitted(uint256 indexed disputeId, address indexed juror);
    event VoteRevealed(uint256 indexed disputeId, address indexed juror, uint8 side);
    event DisputeResolved(uint256 indexed disputeId, address loser, uint256 votesFirst, uint256 votesSecond);

    error SameParty(address operator);
    error TokensDiffer();
    error RowsAtDifferentPlaces();
    error RowsAgree();
    error DisputeExists();
    error WrongState(uint256 disputeId);
    error NotJuror(address caller);
    error VoteMismatch();
    error AlreadyCommitted(address juror);
    error DrawFailed();
    error RowMismatch();

    constructor(IERC20 token_, Staking staking_, Randomness randomness_, Rounds rounds_, Params memory params)
        Judge(token_, staking_, rounds_, params)
    {
        randomness = randomness_;
    }

    // --- divergence: a jury by value ---

    /// @notice Two operators committed to different rows at the same place of the same tokens. Costs a bond, which
    /// comes back when the dispute ends.
    function openDispute(
        uint256 roundId,
        CommitmentProof calldata first,
        RowOpening calldata firstRow,
        CommitmentProof calldata second,
        RowOpening calldata secondRow
    ) external returns (uint256 disputeId) {
        Rounds.Round memory r = _challengeable(roundId);
        Commitment memory a = _checkCommitment(r, first, first.commitment.role);
        Commitment memory b = _checkCommitment(r, second, second.commitment.role);
        if (a.operator == b.operator) revert SameParty(a.operator);
        if (a.jobId != b.jobId) revert JobMismatch(b.jobId);
        if (first.parts.tokenRoot != second.parts.tokenRoot) revert TokensDiffer();
        if (firstRow.boundary != secondRow.boundary || firstRow.position != secondRow.position) {
            revert RowsAtDifferentPlaces();
        }
        ModelSpec memory spec = staking.model(r.modelId);
        Opening.checkRow(a, first.parts, spec, firstRow);
        Opening.checkRow(b, second.parts, spec, secondRow);
        if (!Comparator.diverges(
                firstRow.row, secondRow.row, spec.rowDtype, spec.rowToleranceQ40[firstRow.boundary]
            )) {
            revert RowsAgree();
        }
        bytes32 pair = a.operator < b.operator
            ? keccak256(abi.encode(a.jobId, a.operator, b.operator))
            : keccak256(abi.encode(a.jobId, b.operator, a.operator));
        if (disputed[pair]) revert DisputeExists();
        disputed[pair] = true;

        disputeId = ++disputeCount;
        Dispute storage d = _disputes[disputeId];
        d.state = State.AwaitingJury;
        d.boundary = firstRow.boundary;
        d.position = firstRow.position;
        d.epoch = staking.epoch();
        d.randomnessId = uint64(randomness.request());
        d.jobId = a.jobId;
        d.modelId = r.modelId;
        d.tokenRoot = first.parts.tokenRoot;
        (d.first, d.second) = (a.operator, b.operator);
        (d.firstRowHash, d.secondRowHash) = (keccak256(firstRow.row), keccak256(secondRow.row));
        (d.firstIsWorker, d.secondIsWorker) = (a.role == ROLE_WORKER, b.role == ROLE_WORKER);
        d.challenger = msg.sender;
        _schedulers[disputeId] = r.scheduler;
        rounds.hold(r.scheduler, a.jobId);
        emit DisputeOpened(
            disputeId,
            a.jobId,
            a.operator,
            b.operator,
            firstRow.boundary,
            firstRow.position,
            firstRow.row,
            secondRow.row
        );
        token.safeTransferFrom(msg.sender, address(this), _params.disputeBond);
    }

    /// @notice Draw the jury once the randomness is known. A pool that is too small ends the dispute without a loser.
    function drawJury(uint256 disputeId) external {
        Dispute storage d = _disputes[disputeId];
        if (d.state != State.AwaitingJury) revert WrongState(disputeId);
        bytes memory beta = abi.encodePacked(randomness.value(d.randomnessId));
        address[] memory excluded = new address[](2);
        (excluded[0], excluded[1]) = (d.first, d.second);
        try staking.draw(d.modelId, d.epoch, beta, _params.jurySize, excluded) returns (
            address[] memory jurors
        ) {
            d.state = State.Voting;
            d.jurors = jurors;
            d.commitDeadline = uint48(block.number + _params.juryCommitBlocks);
            d.revealDeadline = uint48(d.commitDeadline + _params.juryRevealBlocks);
            emit JuryDrawn(disputeId, jurors, d.commitDeadline, d.revealDeadline);
        } catch (bytes memory reason) {
            // Anything else, such as too little gas, must not end the dispute.
            if (bytes4(reason) != Staking.NotEnoughOperators.selector) revert DrawFailed();
            _end(disputeId, d, address(0), 0, 0);
        }
    }

    /// @param commitment H(0x0c || chainId || court || disputeId || juror || H(row) || salt), bound to all of them.
    function commitVote(uint256 disputeId, bytes32 commitment) external {
        Dispute storage d = _disputes[disputeId];
        if (d.state != State.Voting) revert WrongState(disputeId);
        if (block.number > d.commitDeadline) revert TooLate(d.commitDeadline);
        if (!_isJuror(d, msg.sender)) revert NotJuror(msg.sender);
        Vote storage v = _votes[disputeId][msg.sender];
        // Once all have committed, rows are revealed: a second commitment could copy one.
        if (v.commitment != 0) revert AlreadyCommitted(msg.sender);
        v.commitment = commitment;
        emit VoteCommitted(disputeId, msg.sender);
    }

    /// @notice Reveal the juror's own row, with both parties' rows beside it. It supports the one that it is close to.
    function revealVote(
        uint256 disputeId,
        bytes calldata row,
        bytes32 salt,
        bytes calldata firstRow,
        bytes calldata secondRow
    ) external {
        Dispute storage d = _disputes[disputeId];
        if (d.state != State.Voting) revert WrongState(disputeId);
        if (block.number <= d.commitDeadline && !_allCommitted(disputeId, d)) {
            revert TooEarly(d.commitDeadline);
        }
        if (block.number > d.revealDeadline) revert TooLate(d.revealDeadline);
        Vote storage v = _votes[disputeId][msg.sender];
        bytes32 expected = keccak256(
            abi.encodePacked(
                Tags.JURY_VOTE, block.chainid, address(this), disputeId, msg.sender, keccak256(row), salt
            )
        );
        if (v.commitment != expected || v.revealed) revert VoteMismatch();
        if (keccak256(firstRow) != d.firstRowHash || keccak256(secondRow) != d.secondRowHash) {
            revert RowMismatch();
        }
        ModelSpec memory spec = staking.model(d.modelId);
        uint256 tolerance = spec.rowToleranceQ40[d.boundary];
        bool nearFirst = !Comparator.diverges(row, firstRow, spec.rowDtype, tolerance);
        bool nearSecond = !Comparator.diverges(row, secondRow, spec.rowDtype, tolerance);
        v.revealed = true;
        v.side = nearFirst == nearSecond ? 0 : nearFirst ? 1 : 2;
        emit VoteRevealed(disputeId, msg.sender, v.side);
    }

    /// @notice End the vote once every juror has revealed or the deadline has passed.
    function resolve(uint256 disputeId) external {
        Dispute storage d = _disputes[disputeId];
        if (d.state != State.Voting) revert WrongState(disputeId);
        uint256[3] memory tally;
        uint256 revealed;
        for (uint256 i; i < d.jurors.length; ++i) {
            Vote storage v = _votes[disputeId][d.jurors[i]];
            if (!v.revealed) continue;
            ++revealed;
            ++tally[v.side];
        }
        if (revealed < d.jurors.length && block.number <= d.revealDeadline) {
            revert TooEarly(d.revealDeadline);
        }
        address loser;
        if (tally[1] > tally[2]) loser = d.second;
        else if (tally[2] > tally[1]) loser = d.first;
        _end(disputeId, d, loser, tally[1], tally[2]);
    }

    function dispute(uint256 disputeId) external view returns (Dispute memory) {
        return _disputes[disputeId];
    }

    function vote(uint256 disputeId, address juror) external view returns (Vote memory) {
        return _votes[disputeId][juror];
    }

    // --- internals ---

    function _isJuror(Dispute storage d, address who) private view returns (bool) {
        for (uint256 i; i < d.jurors.length; ++i) {
            if (d.jurors[i] == who) return true;
        }
        return false;
    }

    function _allCommitted(uint256 disputeId, Dispute storage d) private view returns (bool) {
        for (uint256 i; i < d.jurors.length; ++i) {
            if (_votes[disputeId][d.jurors[i]].commitment == 0) return false;
        }
        return true;
    }

    function _end(uint256 disputeId, Dispute storage d, address loser, uint256 first, uint256 second)
        private
    {
        d.state = State.Resolved;
        rewards[d.challenger] += _params.disputeBond;
        address scheduler = _schedulers[disputeId];
        rounds.release(scheduler, d.jobId);
        emit DisputeResolved(disputeId, loser, first, second);
        _punishJurors(disputeId, d, loser);
        if (loser == address(0)) return;
        if (loser == d.first ? d.firstIsWorker : d.secondIsWorker) rounds.voidJob(scheduler, d.jobId);
        uint8 side = loser == d.first ? 2 : 1;
        address[] memory winners = new address[](side == 1 ? first : second);
        uint256 found;
        for (uint256 i; i < d.jurors.length; ++i) {
            if (_votes[disputeId][d.jurors[i]].side == side) winners[found++] = d.jurors[i];
        }
        // Several verifiers may dispute the same wrong rows; they are one offence.
        if (slashedFor[d.jobId][loser]) return;
        slashedFor[d.jobId][loser] = true;
        _share(staking.slash(d.modelId, loser, _params.slashBpsDivergence), d.challenger, winners);
    }

    /// @dev Jurors who did not reveal pay, and with a clear majority so do those whose values are far from it.
    function _punishJurors(uint256 disputeId, Dispute storage d, address loser) private {
        uint8 side = loser == address(0) ? 0 : loser == d.first ? 2 : 1;
        uint256 burned;
        for (uint256 i; i < d.jurors.length; ++i) {
            Vote storage v = _votes[disputeId][d.jurors[i]];
            if (v.revealed && (side == 0 || v.side == side)) continue;
            burned += staking.slash(d.modelId, d.jurors[i], _params.slashBpsNoShow);
        }
        if (burned > 0) token.safeTransfer(BURN, burned);
    }
}
