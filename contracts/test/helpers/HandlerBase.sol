// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Tags} from "../../src/libraries/Tags.sol";
import {
    Commitment,
    CommitmentProof,
    Job,
    JobRootParts,
    Line,
    RecordProof,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    SCHEDULER_POOL,
    SettlementRecord,
    VERDICT_ACCEPT
} from "../../src/Types.sol";
import {Ledgers} from "./Ledgers.sol";
import {Transcripts} from "./Transcripts.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @notice The actors, the sums that must hold, and what the handler knows of every round.
abstract contract HandlerBase is World {
    using Transcripts for Transcripts.Transcript;

    enum Stage {
        Committed,
        Verified,
        Settled,
        Closed
    }

    /// @dev What is false in a settlement. Each is provable by one challenge.
    enum Lie {
        None,
        Fee,
        Worker,
        Outcome,
        LinkTotal,
        LinkPrevious,
        DebitLine,
        CreditLine,
        ExtraDebit,
        MissingCredit,
        Hidden
    }

    /// @dev What the operators of a job commit to: a false token, one row by the worker and another by the verifiers, or a
    /// row with a NaN.
    enum Kind {
        Honest,
        Fraudulent,
        Divergent,
        Invalid
    }

    /// @dev Verifier i is operator `worker + 1 + i`; its verdict is byte i of `verdicts`. A job that was settled before is
    /// `repeated`, and was job `formerIndex` of round `former`.
    struct Plan {
        uint64 nonce;
        uint8 client;
        uint8 worker;
        uint8 verifiers;
        uint16 verdicts;
        Kind kind;
        uint96 price;
        bool repeated;
        uint32 former;
        uint32 formerIndex;
    }

    /// @dev `lieAt` is the false record, `slot` the false link or line. `locked` is what clients paid and nobody has got.
    struct Game {
        Stage stage;
        Lie lie;
        uint32 lieAt;
        uint32 slot;
        bool caught;
        uint256 locked;
    }

    struct Settlement {
        SettlementRecord[] records;
        Line[] debits;
        Line[] credits;
    }

    uint256 public constant CLIENTS = 3;
    uint256 public constant SCHEDULERS = 2;
    uint256 internal constant MAX_OPEN = 5;

    /// @notice How often each thing happened.
    mapping(string what => uint256) public times;
    /// @notice What each escrow must hold.
    mapping(address client => mapping(address scheduler => uint256)) public escrowed;
    /// @notice What clients paid for settled rounds and nobody has got yet.
    uint256 public locked;
    /// @notice Bonds of open demands and disputes, and jurors' shares that wait for their seats to be settled.
    uint256 public owedByCourts;
    /// @notice What clients lost to settlements whose lies nobody challenged.
    uint256 public stolen;
    uint256 public supply;

    address[] internal clients;
    address[] internal schedulers;
    address[] internal operators;
    uint256[] internal openRounds;
    mapping(uint256 roundId => Game) internal games;
    mapping(uint256 roundId => Plan[]) internal plans;
    mapping(uint256 roundId => mapping(address client => uint256)) internal refunded;
    mapping(uint256 roundId => bytes32[]) internal workerLeaves;
    mapping(uint256 roundId => bytes32[]) internal verifierLeaves;
    mapping(uint256 roundId => bytes) private _settlements;
    JobRootParts[4] private _parts;
    uint256 private _dice;
    uint256 private _block;

    /// @dev The block survives from call to call, whatever the runner does. `seed` feeds the dice.
    modifier action(uint256 seed) {
        vm.roll(_block);
        _dice = seed;
        _;
        _block = vm.getBlockNumber();
    }

    function setUp() public virtual override {
        super.setUp();
        for (uint256 i; i < CLIENTS; ++i) {
            clients.push(vm.addr(CLIENT_KEY + i));
            fund(clients[i], 50_000 ether, address(rounds));
        }
        for (uint256 i; i < OPERATORS; ++i) {
            operators.push(vm.addr(operatorKey(i)));
            fund(operators[i], 50_000 ether, address(staking));
            fund(operators[i], 50_000 ether, address(rounds));
        }
        schedulers.push(scheduler);
        schedulers.push(makeAddr("second scheduler"));
        for (uint256 i; i < SCHEDULERS; ++i) {
            fund(schedulers[i], 500_000 ether, address(staking));
        }
        vm.prank(schedulers[1]);
        staking.registerScheduler(STAKE, "", VRF_KEY);
        fund(challenger, 1_000_000 ether, address(rounds));
        escrowed[client][scheduler] = 1000 ether; // World.setUp
        for (uint256 i; i < 4; ++i) {
            _parts[i] = transcriptOf(Kind(i), ROLE_VERIFIER).parts();
        }
        supply = token.totalSupply();
        _block = vm.getBlockNumber();
    }

    // --- dice ---

    function roll(uint256 sides) internal returns (uint256) {
        _dice = uint256(keccak256(abi.encode(_dice)));
        return _dice % sides;
    }

    function chance(uint256 percent) internal returns (bool) {
        return roll(100) < percent;
    }

    /// @dev Of all amounts up to `most`, often all.
    function someOf(uint256 most) internal returns (uint256) {
        return chance(25) ? most : roll(most + 1);
    }

    function did(string memory what) internal {
        ++times[what];
    }

    function passBlock(uint256 blockNumber) internal {
        if (vm.getBlockNumber() <= blockNumber) vm.roll(blockNumber + 1);
    }

    // --- what operators signed ---

    function transcriptOf(Kind kind, uint8 role) internal pure returns (Transcripts.Transcript memory t) {
        t = Transcripts.honest();
        if (kind == Kind.Fraudulent) t.tokens[2] = 5;
        if (kind == Kind.Divergent && role == ROLE_VERIFIER) t.rows[0][1] = otherRow();
        if (kind == Kind.Invalid) t.rows[0][1] = Transcripts.unit(1, 0x7fc0);
    }

    function partsOf(Kind kind, uint8 role) internal view returns (JobRootParts memory) {
        return _parts[uint8(kind == Kind.Divergent && role == ROLE_WORKER ? Kind.Honest : kind)];
    }

    function workerRow() internal pure returns (bytes memory) {
        return Transcripts.unit(1, Transcripts.ONE);
    }

    /// @dev 6 % from the worker's row.
    function otherRow() internal pure returns (bytes memory) {
        return Transcripts.unit(1, 0x3f88);
    }

    function operatorOf(Plan memory p, uint8 role, uint256 v) internal pure returns (uint256) {
        return role == ROLE_WORKER ? p.worker : (p.worker + 1 + v) % OPERATORS;
    }

    function jobOf(Plan memory p) internal view returns (Job memory job) {
        job = newJob(p.nonce);
        job.client = clients[p.client];
        (job.inputPrice, job.outputPrice) = (p.price, p.price);
        job.verifiers = 2;
        job.deadline = type(uint64).max;
    }

    function commitmentOf(Plan memory p, uint8 role, uint256 v) internal view returns (Commitment memory c) {
        JobRootParts memory parts = partsOf(p.kind, role);
        c.jobId = rounds.jobId(jobOf(p));
        c.role = role;
        (c.promptTokens, c.outputTokens, c.finishReason) = (Transcripts.PROMPT, Transcripts.OUTPUT, 1);
        c.operator = operators[operatorOf(p, role, v)];
        bytes memory head = abi.encodePacked(
            Tags.JOB, c.jobId, c.operator, modelId, c.promptTokens, c.outputTokens, c.finishReason
        );
        c.jobRoot = keccak256(abi.encodePacked(head, parts.tokenRoot, parts.boundaries, parts.boundariesRoot));
    }

    function leafFor(Plan memory p, uint8 role, uint256 v) internal view returns (bytes32) {
        Commitment memory c = commitmentOf(p, role, v);
        return Trees.roundLeaf(digestOf(c), c.operator);
    }

    function workerProof(uint256 id, uint256 index) internal view returns (CommitmentProof memory p) {
        p = _proof(plans[id][index], ROLE_WORKER, 0);
        (p.leafIndex, p.leafProof) = (index, Trees.proof(workerLeaves[id], index));
    }

    function verifierProof(uint256 id, uint256 index, uint256 v)
        internal
        view
        returns (CommitmentProof memory p)
    {
        p = _proof(plans[id][index], ROLE_VERIFIER, v);
        for (uint256 i; i < index; ++i) {
            p.leafIndex += plans[id][i].verifiers;
        }
        p.leafIndex += v;
        p.leafProof = Trees.proof(verifierLeaves[id], p.leafIndex);
    }

    function _proof(Plan memory plan, uint8 role, uint256 v) private view returns (CommitmentProof memory p) {
        p.commitment = commitmentOf(plan, role, v);
        p.parts = partsOf(plan.kind, role);
        p.signature = sign(digestOf(p.commitment), operatorKey(operatorOf(plan, role, v)));
    }

    // --- rounds ---

    /// @dev From here on `scheduler` and `params` are those of the round.
    function focus(uint256 id) internal returns (Round memory round) {
        round = at(id);
        scheduler = round.scheduler;
        params = parameters.at(round.paramsVersion);
    }

    /// @dev The record that follows from the job.
    function recordOf(Plan memory p) internal view returns (SettlementRecord memory r) {
        r.jobId = rounds.jobId(jobOf(p));
        (r.client, r.worker) = (clients[p.client], operators[p.worker]);
        (r.promptTokens, r.outputTokens) = (Transcripts.PROMPT, Transcripts.OUTPUT);
        (r.verifiers, r.verdicts) = (new address[](p.verifiers), new uint8[](p.verifiers));
        for (uint256 i; i < p.verifiers; ++i) {
            r.verifiers[i] = operators[operatorOf(p, ROLE_VERIFIER, i)];
            r.verdicts[i] = uint8(p.verdicts >> (8 * i));
        }
        r.outcome = libraries.outcome(r.verdicts);
        setFees(r, p.price);
    }

    function setFees(SettlementRecord memory r, uint128 price) internal view {
        r.workerFee = r.outcome == VERDICT_ACCEPT ? (Transcripts.PROMPT + Transcripts.OUTPUT) * price : 0;
        r.verifierFee = uint128(uint256(r.workerFee) * params.verifierFeeBps / 10_000);
        r.schedulerFee = uint128(uint256(r.workerFee) * params.schedulerFeeBps / 10_000);
    }

    function keepSettlement(uint256 id, Settlement memory s) internal {
        _settlements[id] = abi.encode(s);
    }

    function settlementOf(uint256 id) internal view returns (Settlement memory) {
        return abi.decode(_settlements[id], (Settlement));
    }

    function proveRecord(uint256 id, uint256 index) internal view returns (RecordProof memory) {
        return Ledgers.prove(settlementOf(id).records, uint32(index));
    }

    function isChallengeable(uint256 id) internal view returns (bool) {
        if (games[id].stage == Stage.Closed) return false;
        (uint256 finalBlock, uint256 settleBy) = (at(id).finalBlock, at(id).settleBy);
        if (finalBlock == 0) return vm.getBlockNumber() <= settleBy;
        return vm.getBlockNumber() <= finalBlock || rounds.pending(id).voidsOpen > 0;
    }

    /// @dev An open round that can be challenged and is at least at this stage, in focus; 0 if there is none.
    function someRound(Stage least) internal returns (uint256) {
        uint256 start = roll(MAX_OPEN);
        for (uint256 i; i < openRounds.length; ++i) {
            uint256 id = openRounds[(start + i) % openRounds.length];
            if (games[id].stage < least || !isChallengeable(id)) continue;
            focus(id);
            return id;
        }
        return 0;
    }

    function forget(uint256 id) internal {
        for (uint256 i; i < openRounds.length; ++i) {
            if (openRounds[i] != id) continue;
            openRounds[i] = openRounds[openRounds.length - 1];
            openRounds.pop();
        }
    }

    // --- sums ---

    function escrowTotal(address client_, address scheduler_) public view returns (uint256) {
        (uint256 available, uint256 leaving) = rounds.escrowOf(client_, scheduler_);
        return available + leaving;
    }

    /// @notice Escrows and balances of all who have any.
    function owedByRounds() public view returns (uint256 sum) {
        for (uint256 i; i < CLIENTS; ++i) {
            for (uint256 j; j < SCHEDULERS; ++j) {
                sum += escrowTotal(clients[i], schedulers[j]);
            }
        }
        for (uint256 i; i < SCHEDULERS; ++i) {
            sum += rounds.balances(schedulers[i]);
        }
        for (uint256 i; i < OPERATORS; ++i) {
            sum += rounds.balances(operators[i]);
        }
        sum += rounds.balances(challenger);
    }

    function staked() public view returns (uint256 sum) {
        for (uint256 i; i < OPERATORS; ++i) {
            sum += staking.stakeOf(modelId, operators[i]);
        }
        for (uint256 i; i < SCHEDULERS; ++i) {
            sum += staking.stakeOf(SCHEDULER_POOL, schedulers[i]);
        }
    }
}
