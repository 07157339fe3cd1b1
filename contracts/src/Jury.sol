// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IRandomness} from "./interfaces/IRandomness.sol";
import {Comparator} from "./libraries/Comparator.sol";
import {Juries} from "./libraries/Juries.sol";
import {Rows} from "./libraries/Rows.sol";
import {Tags} from "./libraries/Tags.sol";
import {Judge} from "./Judge.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {Params} from "./Types.sol";

/// @notice The juries of a dispute: drawn from the pool, they commit to the row that they compute, then reveal it.
/// Whoever doubts a jury pays for one of twice the size; the last jury with a quorum decides. Every step but a
/// juror's own may be taken by anyone.
abstract contract Jury is Judge, ReentrancyGuardTransient {
    using Juries for Juries.Level;
    using Juries for Juries.Seat[];

    enum State {
        None,
        AwaitingJury,
        Voting,
        Appealable,
        Settling,
        Ended
    }

    struct Party {
        address operator;
        bool isWorker;
        uint32 leafIndex;
    }

    /// @notice `standing` is the side that the juries so far support: 0 nobody, 1 first, 2 second. `winningLevel` is
    /// the level whose jury made it so, `share` what each juror of that side earns, `settled` counts seats.
    struct Dispute {
        State state;
        uint8 level;
        uint8 standing;
        uint8 winningLevel;
        uint8 rowDtype;
        uint16 boundary;
        uint16 settled;
        uint32 position;
        uint32 paramsVersion;
        uint48 epoch;
        uint64 toleranceQ40;
        uint64 targetBlock;
        uint64 commitDeadline;
        uint64 revealDeadline;
        uint64 appealDeadline;
        uint128 share;
        uint128 roundId;
        bytes32 jobId;
        bytes32 modelId;
        bytes32 tokenRoot;
        Party first;
        Party second;
        bytes32 firstRowHash;
        bytes32 secondRowHash;
    }

    IRandomness public immutable randomness;

    mapping(uint256 disputeId => Dispute) internal _disputes;
    mapping(uint256 disputeId => mapping(uint256 level => Juries.Level)) internal _levels;
    mapping(uint256 disputeId => Juries.Seat[]) internal _seats;

    event JuryAwaited(uint256 indexed disputeId, uint256 level, uint256 targetBlock);
    event JuryDrawn(
        uint256 indexed disputeId,
        uint256 level,
        address[] jurors,
        uint256 commitDeadline,
        uint256 revealDeadline
    );
    event VoteCommitted(uint256 indexed disputeId, uint256 level, address indexed juror);
    event VoteUnable(uint256 indexed disputeId, uint256 level, address indexed juror);
    event VoteRevealed(uint256 indexed disputeId, uint256 level, address indexed juror, uint8 near);
    event JuryTallied(
        uint256 indexed disputeId,
        uint256 level,
        uint256 votesFirst,
        uint256 votesSecond,
        uint8 standing,
        uint256 appealDeadline
    );
    event Appealed(uint256 indexed disputeId, uint256 level, address indexed appellant, uint256 bond);

    error WrongState(uint256 disputeId);
    error SeedStillAvailable(uint256 blockNumber);
    error VoteEmpty();
    error VoteMismatch();
    error AlreadyAnswered(address juror);
    error RowMismatch();

    constructor(Staking staking_, Rounds rounds_) Judge(staking_, rounds_) {
        randomness = rounds_.randomness();
    }

    // --- seating ---

    /// @notice Draw the awaited jury. One that can have no quorum, because the pool is too small, is not seated, and
    /// the dispute ends with what stands.
    /// @param header RLP header of `targetBlock`, or empty if its value was poked.
    function drawJury(uint256 disputeId, bytes calldata header) external {
        Dispute storage d = _inState(disputeId, State.AwaitingJury);
        bytes32 seed =
            header.length == 0 ? randomness.valueOf(d.targetBlock) : randomness.prove(d.targetBlock, header);
        Params memory params = parameters.at(d.paramsVersion);
        uint256 size = uint256(params.jurySize) << d.level;
        address[] memory drawn = _draw(disputeId, d, seed, size);
        if (!Juries.isQuorum(drawn.length, size)) {
            d.state = State.Appealable;
            d.appealDeadline = 0;
            emit JuryTallied(disputeId, d.level, 0, 0, d.standing, 0);
            return;
        }
        Juries.Seat[] storage seats = _seats[disputeId];
        Juries.Level storage panel = _levels[disputeId][d.level];
        (panel.start, panel.drawn) = (uint16(seats.length), uint8(drawn.length));
        for (uint256 i; i < drawn.length; ++i) {
            seats.push().juror = drawn[i];
        }
        d.state = State.Voting;
        d.commitDeadline = uint64(block.number + params.juryCommitBlocks);
        d.revealDeadline = d.commitDeadline + params.juryRevealBlocks;
        emit JuryDrawn(disputeId, d.level, drawn, d.commitDeadline, d.revealDeadline);
    }

    /// @notice Nobody showed the seed of the target block in time: the dispute waits for a new block.
    function requeueJury(uint256 disputeId) external {
        Dispute storage d = _inState(disputeId, State.AwaitingJury);
        if (!randomness.expired(d.targetBlock)) revert SeedStillAvailable(d.targetBlock);
        _awaitJury(disputeId, d, parameters.at(d.paramsVersion));
    }

    /// @param commitment keccak256(0x0c || u256 chainId || court || u256 disputeId || u8 level || juror ||
    /// keccak256(row) || salt), bound to all of them.
    function commitVote(uint256 disputeId, bytes32 commitment) external {
        if (commitment == 0) revert VoteEmpty();
        (Juries.Level storage panel, Juries.Seat storage seat, uint8 level) = _unanswered(disputeId);
        seat.commitment = commitment;
        ++panel.committed;
        emit VoteCommitted(disputeId, level, msg.sender);
    }

    /// @notice A juror that cannot compute the row says so, at no cost and for no pay.
    function declareUnable(uint256 disputeId) external {
        (Juries.Level storage panel, Juries.Seat storage seat, uint8 level) = _unanswered(disputeId);
        seat.unable = true;
        ++panel.unable;
        emit VoteUnable(disputeId, level, msg.sender);
    }

    /// @notice Reveal the juror's own row, with both parties' rows beside it. It supports the one that it is close to.
    function revealVote(
        uint256 disputeId,
        bytes calldata row,
        bytes32 salt,
        bytes calldata firstRow,
        bytes calldata secondRow
    ) external {
        Dispute storage d = _inState(disputeId, State.Voting);
        Juries.Level storage panel = _levels[disputeId][d.level];
        if (block.number <= d.commitDeadline && !panel.allAnswered()) revert TooEarly(d.commitDeadline);
        if (block.number > d.revealDeadline) revert TooLate(d.revealDeadline);
        Juries.Seat storage seat = panel.seatOf(_seats[disputeId], msg.sender);
        bytes memory head =
            abi.encodePacked(Tags.JURY_VOTE, block.chainid, address(this), disputeId, d.level, msg.sender);
        bytes32 expected = keccak256(bytes.concat(head, keccak256(row), salt));
        if (seat.commitment != expected || seat.revealed) revert VoteMismatch();
        uint8 near = _near(d, row, firstRow, secondRow);
        seat.revealed = true;
        seat.near = near;
        ++panel.revealed;
        if (near == 1) ++panel.votesFirst;
        if (near == 2) ++panel.votesSecond;
        emit VoteRevealed(disputeId, d.level, msg.sender, near);
    }

    /// @notice Count the votes once no more can come. More than half of the jury's size must have taken a side.
    function tally(uint256 disputeId) external {
        Dispute storage d = _inState(disputeId, State.Voting);
        Juries.Level storage panel = _levels[disputeId][d.level];
        bool committed = block.number > d.commitDeadline || panel.allAnswered();
        bool revealed = committed && panel.revealed == panel.committed;
        if (!revealed && block.number <= d.revealDeadline) revert TooEarly(d.revealDeadline);
        Params memory params = parameters.at(d.paramsVersion);
        uint256 size = uint256(params.jurySize) << d.level;
        uint8 side = panel.majority();
        if (Juries.isQuorum(uint256(panel.votesFirst) + panel.votesSecond, size) && side != d.standing) {
            (d.standing, d.winningLevel) = (side, d.level);
        }
        d.state = State.Appealable;
        d.appealDeadline = d.level < params.maxAppeals ? uint64(block.number + params.appealBlocks) : 0;
        emit JuryTallied(
            disputeId, d.level, panel.votesFirst, panel.votesSecond, d.standing, d.appealDeadline
        );
    }

    /// @notice Ask for a jury of twice the size. Costs `disputeBond << level`, which comes back if in the end not that
    /// side stands which stood before.
    function appeal(uint256 disputeId) external nonReentrant {
        Dispute storage d = _inState(disputeId, State.Appealable);
        if (block.number > d.appealDeadline) revert TooLate(d.appealDeadline);
        uint256 bond = _openLevel(disputeId, d, d.level + 1, parameters.at(d.paramsVersion));
        emit Appealed(disputeId, d.level, msg.sender, bond);
    }

    // --- views ---

    function dispute(uint256 disputeId) external view returns (Dispute memory) {
        return _disputes[disputeId];
    }

    function jury(uint256 disputeId, uint256 level) external view returns (Juries.Level memory) {
        return _levels[disputeId][level];
    }

    function jurors(uint256 disputeId, uint256 level) external view returns (address[] memory) {
        Juries.Level storage j = _levels[disputeId][level];
        return _seats[disputeId].jurors(j.start, uint256(j.start) + j.drawn);
    }

    function vote(uint256 disputeId, uint256 level, address juror)
        external
        view
        returns (Juries.Seat memory)
    {
        return _levels[disputeId][level].seatOf(_seats[disputeId], juror);
    }

    // --- internals ---

    function _inState(uint256 disputeId, State state) private view returns (Dispute storage d) {
        d = _disputes[disputeId];
        if (d.state != state) revert WrongState(disputeId);
    }

    /// @dev Begin a level at the caller's cost.
    function _openLevel(uint256 disputeId, Dispute storage d, uint8 level, Params memory params)
        internal
        returns (uint256 bond)
    {
        d.level = level;
        d.state = State.AwaitingJury;
        Juries.Level storage j = _levels[disputeId][level];
        (j.opener, j.contested) = (msg.sender, d.standing);
        _awaitJury(disputeId, d, params);
        bond = uint256(params.disputeBond) << level;
        rounds.takeBond(msg.sender, bond);
    }

    function _awaitJury(uint256 disputeId, Dispute storage d, Params memory params) private {
        d.targetBlock = uint64(block.number + params.randomnessDelayBlocks);
        emit JuryAwaited(disputeId, d.level, d.targetBlock);
    }

    /// @dev By the stakes of the epoch in which the dispute was opened, so that nobody can buy into an appeal. Neither
    /// parties nor earlier jurors sit; earlier jurors may fill seats that the pool leaves empty.
    function _draw(uint256 disputeId, Dispute storage d, bytes32 seed, uint256 size)
        private
        view
        returns (address[] memory drawn)
    {
        // Bound to the dispute: one block must not seat the same jury in many.
        bytes memory beta = abi.encodePacked(keccak256(abi.encodePacked(seed, disputeId, d.level)));
        address[] memory parties = new address[](2);
        (parties[0], parties[1]) = (d.first.operator, d.second.operator);
        Juries.Seat[] storage seats = _seats[disputeId];
        address[] memory excluded = Juries.concat(parties, seats.jurors(0, seats.length));
        drawn = staking.draw(d.modelId, d.epoch, beta, size, excluded);
        if (drawn.length == size || seats.length == 0) return drawn;
        excluded = Juries.concat(parties, drawn);
        address[] memory again = staking.draw(d.modelId, d.epoch, beta, size - drawn.length, excluded);
        return Juries.concat(drawn, again);
    }

    /// @dev The caller's seat, if it may still commit or decline. There is no second answer: once all have given one,
    /// rows are revealed and could be copied.
    function _unanswered(uint256 disputeId)
        private
        view
        returns (Juries.Level storage j, Juries.Seat storage seat, uint8 level)
    {
        Dispute storage d = _inState(disputeId, State.Voting);
        if (block.number > d.commitDeadline) revert TooLate(d.commitDeadline);
        level = d.level;
        j = _levels[disputeId][level];
        seat = j.seatOf(_seats[disputeId], msg.sender);
        if (seat.commitment != 0 || seat.unable) revert AlreadyAnswered(msg.sender);
    }

    function _near(Dispute storage d, bytes calldata row, bytes calldata firstRow, bytes calldata secondRow)
        private
        view
        returns (uint8 near)
    {
        if (keccak256(firstRow) != d.firstRowHash || keccak256(secondRow) != d.secondRowHash) {
            revert RowMismatch();
        }
        (uint8 dtype, uint256 tolerance) = (d.rowDtype, d.toleranceQ40);
        Rows.Row memory own = Comparator.load(row, dtype);
        if (!Comparator.diverges(own, Comparator.load(firstRow, dtype), tolerance)) near |= 1;
        if (!Comparator.diverges(own, Comparator.load(secondRow, dtype), tolerance)) near |= 2;
    }
}
