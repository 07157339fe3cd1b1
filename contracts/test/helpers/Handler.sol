// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Tribunal} from "../../src/Tribunal.sol";
import {Tags} from "../../src/libraries/Tags.sol";
import {
    CommitmentProof,
    Job,
    ROLE_VERIFIER,
    ROLE_WORKER,
    SettlementRecord,
    VERDICT_REJECT
} from "../../src/Types.sol";
import {Transcripts} from "./Transcripts.sol";
import {World} from "./World.sol";

/// @notice Random but valid actions of clients, operators and challengers; every one of them succeeds or is skipped.
contract Handler is World {
    using Transcripts for Transcripts.Transcript;

    uint256 public constant CLIENTS = 3;
    bytes32 private constant SALT = "salt";

    /// @notice What each client put into escrow, took out, and signed away by jobs that were claimed.
    mapping(address client => uint256) public deposited;
    mapping(address client => uint256) public takenOut;
    mapping(address client => uint256) public signedAway;
    uint256 public calls;
    uint256 public done;
    uint256 public supply;
    uint256 private _nonce = 1000;
    uint256 private _block;

    /// @dev The block survives from call to call, whatever the runner does.
    modifier action() {
        vm.roll(_block);
        ++calls;
        _;
        _block = vm.getBlockNumber();
    }

    function setUp() public override {
        super.setUp();
        for (uint256 i; i < CLIENTS; ++i) {
            fund(clientAt(i), 500 ether, address(rounds));
        }
        deposited[client] = 1000 ether; // World.setUp
        for (uint256 i; i < OPERATORS; ++i) {
            fund(vm.addr(operatorKey(i)), 2 * STAKE, address(staking));
        }
        token.mint(challenger, 100 * params.disputeBond);
        supply = token.totalSupply();
        _block = vm.getBlockNumber();
    }

    function clientAt(uint256 i) public pure returns (address) {
        return vm.addr(CLIENT_KEY + i % CLIENTS);
    }

    function operatorAt(uint256 i) public pure returns (address) {
        return vm.addr(operatorKey(i % OPERATORS));
    }

    // --- clients ---

    function deposit(uint256 i, uint256 amount) external action {
        address who = clientAt(i);
        amount = bound(amount, 0, token.balanceOf(who));
        vm.prank(who);
        rounds.depositEscrow(scheduler, amount);
        deposited[who] += amount;
        ++done;
    }

    function leave(uint256 i, uint256 amount, bool wait) external action {
        address who = clientAt(i);
        (uint256 available, uint256 leaving) = rounds.escrowOf(who, scheduler);
        amount = bound(amount, 0, available + leaving);
        vm.startPrank(who);
        rounds.requestEscrowWithdrawal(scheduler, amount);
        if (wait && amount > 0) {
            vm.roll(vm.getBlockNumber() + params.escrowDelayBlocks);
            takenOut[who] += rounds.withdrawEscrow(scheduler);
        }
        vm.stopPrank();
        ++done;
    }

    // --- operators ---

    function stakeMore(uint256 i, uint256 amount) external action {
        address who = operatorAt(i);
        amount = bound(amount, 0, token.balanceOf(who));
        vm.prank(who);
        staking.increaseStake(modelId, amount);
        ++done;
    }

    function unbond(uint256 i, uint256 amount, bool wait) external action {
        address who = operatorAt(i);
        uint256 active = staking.activeStake(modelId, who);
        if (active == 0) return;
        vm.startPrank(who);
        // One request at a time, so that the limit of open requests is never met.
        vm.roll(vm.getBlockNumber() + params.unbondingBlocks);
        if (staking.stakeOf(modelId, who) > active) staking.withdrawUnbonded(modelId);
        staking.requestUnbond(modelId, bound(amount, 1, active));
        if (wait) {
            vm.roll(vm.getBlockNumber() + params.unbondingBlocks);
            staking.withdrawUnbonded(modelId);
        }
        vm.stopPrank();
        ++done;
    }

    function collect(uint256 i) external action {
        address who = operatorAt(i);
        vm.startPrank(who);
        if (rounds.balances(who) > 0) rounds.withdraw();
        if (court.rewards(who) > 0) court.withdrawRewards();
        vm.stopPrank();
        ++done;
    }

    // --- jobs ---

    /// @notice A whole round of one job, from the commitment to the claim.
    function serve(uint256 i, uint256 operator, uint256 price, bool reject) external action {
        address who = clientAt(i);
        (uint256 available, uint256 leaving) = rounds.escrowOf(who, scheduler);
        Job memory job = newJob(_nonce++);
        job.client = who;
        // 4 tokens, and 12 % on top for one verifier and the scheduler
        job.inputPrice = uint128(bound(price, 0, (available + leaving) * 100 / 448));
        job.outputPrice = job.inputPrice;
        SettlementRecord memory record = newRecord(job, operatorAt(operator));
        record.workerFee = reject ? 0 : 4 * job.inputPrice;
        record.verifierFee = uint128(record.workerFee * params.verifierFeeBps / 10_000);
        record.schedulerFee = uint128(record.workerFee * params.schedulerFeeBps / 10_000);
        if (reject) (record.outcome, record.verdicts[0]) = (VERDICT_REJECT, VERDICT_REJECT);
        uint256 roundId = honestRound(job);
        settleRound(roundId, record, feesOf(record));
        passWindow(roundId);
        rounds.claim(roundId, 0, record, none(), job, signJob(job, CLIENT_KEY + i % CLIENTS));
        signedAway[who] += feesOf(record);
        ++done;
    }

    /// @notice The verifier's row differs; the jurors who come side with either, by the bits of `votes`.
    function dispute(uint256 a, uint256 b, uint256 votes) external action {
        if (a % OPERATORS == b % OPERATORS) b = a + 1;
        Job memory job = newJob(_nonce++);
        Transcripts.Transcript memory t = Transcripts.honest();
        bytes[2] memory rows = [t.rows[0][1], Transcripts.unit(1, 0x4000)];
        CommitmentProof memory first = commit(job, t, ROLE_WORKER, a % OPERATORS);
        t.rows[0][1] = rows[1];
        CommitmentProof memory second = commit(job, t, ROLE_VERIFIER, b % OPERATORS);
        uint256 roundId = openRound(first, second);
        vm.prank(challenger);
        uint256 id = court.openDispute(roundId, first, Transcripts.honest().open(0, 1), second, t.open(0, 1));
        poke(court.dispute(id).randomnessId);
        court.drawJury(id);
        address[] memory jurors = court.dispute(id).jurors;
        for (uint256 i; i < jurors.length; ++i) {
            if ((votes >> 8 + i) & 3 != 0) _commitVote(id, jurors[i], rows[(votes >> i) & 1]);
        }
        if (jurors.length > 0) vm.roll(uint256(court.dispute(id).commitDeadline) + 1);
        for (uint256 i; i < jurors.length; ++i) {
            if ((votes >> 8 + i) & 3 == 0) continue;
            vm.prank(jurors[i]);
            court.revealVote(id, rows[(votes >> i) & 1], SALT, rows[0], rows[1]);
        }
        if (jurors.length > 0) {
            vm.roll(uint256(court.dispute(id).revealDeadline) + 1);
            court.resolve(id);
        }
        ++done;
    }

    function demand(uint256 operator, bool answer) external action {
        Transcripts.Transcript memory t = Transcripts.honest();
        CommitmentProof memory p = commit(newJob(_nonce++), t, ROLE_WORKER, operator % OPERATORS);
        uint256 roundId = openRound(p);
        vm.prank(challenger);
        uint256 id = tribunal.demandOpening(roundId, p, 0, 1);
        if (answer) {
            tribunal.answerOpening(id, p.parts, t.open(0, 1));
        } else {
            vm.roll(uint256(tribunal.demand(id).deadline) + 1);
            tribunal.slashWithheld(id);
        }
        ++done;
    }

    function tokenFraud(uint256 operator) external action {
        Transcripts.Transcript memory t = Transcripts.honest();
        t.tokens[2] = 5;
        Tribunal.TokenFraud memory f;
        f.job = newJob(_nonce++);
        f.worker = commit(f.job, t, ROLE_WORKER, operator % OPERATORS);
        f.roundId = openRound(f.worker);
        f.finalRow = t.open(1, 1);
        f.claimedToken = 5;
        f.tokenProof = t.tokenProof(2);
        (f.claimed, f.better) = (Transcripts.weights(5), Transcripts.weights(3));
        vm.prank(challenger);
        tribunal.proveTokenFraud(f);
        ++done;
    }

    function _commitVote(uint256 id, address juror, bytes memory row) private {
        bytes32 vote = keccak256(
            abi.encodePacked(Tags.JURY_VOTE, block.chainid, address(court), id, juror, keccak256(row), SALT)
        );
        vm.prank(juror);
        court.commitVote(id, vote);
    }

    // --- sums ---

    function owedByRounds() external view returns (uint256 sum) {
        for (uint256 i; i < CLIENTS; ++i) {
            sum += escrowTotal(clientAt(i)) + rounds.balances(clientAt(i));
        }
        for (uint256 i; i < OPERATORS; ++i) {
            sum += rounds.balances(operatorAt(i));
        }
        sum += rounds.balances(scheduler) + rounds.balances(challenger);
    }

    function staked() external view returns (uint256 sum) {
        for (uint256 i; i < OPERATORS; ++i) {
            sum += staking.stakeOf(modelId, operatorAt(i));
        }
        sum += staking.stakeOf(staking.SCHEDULER_POOL(), scheduler);
    }

    function rewardsOf(address judge) external view returns (uint256 sum) {
        for (uint256 i; i < OPERATORS; ++i) {
            sum += Tribunal(judge).rewards(operatorAt(i));
        }
        sum += Tribunal(judge).rewards(challenger);
    }

    function escrowTotal(address who) public view returns (uint256) {
        (uint256 available, uint256 leaving) = rounds.escrowOf(who, scheduler);
        return available + leaving;
    }

    function contracts() external view returns (address, address, address, address, address) {
        return (address(token), address(staking), address(rounds), address(court), address(tribunal));
    }
}
