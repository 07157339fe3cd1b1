// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Inquiry} from "../../src/Inquiry.sol";
import {Rounds} from "../../src/Rounds.sol";
import {Tribunal} from "../../src/Tribunal.sol";
import {
    CommitmentProof,
    Job,
    Line,
    NO_JOB,
    RecordProof,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    SettlementRecord,
    Verdict,
    VERDICT_ACCEPT,
    VERDICT_REJECT
} from "../../src/Types.sol";
import {HandlerRounds} from "./HandlerRounds.sol";
import {Ledgers} from "./Ledgers.sol";
import {Transcripts} from "./Transcripts.sol";

/// @notice What contracts decide alone: lies in settlements, repeated jobs, demands, token fraud, two verdicts.
abstract contract HandlerChallenges is HandlerRounds {
    using Transcripts for Transcripts.Transcript;

    struct Asked {
        uint256 id;
        Inquiry.Demand demand;
    }

    struct Demanded {
        uint256 id;
        Tribunal.Demand demand;
    }

    Asked[] internal asked;
    Demanded[] internal demanded;
    mapping(bytes32 verdicts => bool) private _equivocated;

    // --- settlements ---

    function challengeLie(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Settled);
        Game memory g = games[id];
        if (id == 0 || g.lie == Lie.None || g.lie == Lie.Hidden || g.caught) return;
        Round memory round = at(id);
        vm.startPrank(challenger);
        if (g.lie <= Lie.Outcome) {
            audit.challengeRecord(
                id, round, proveRecord(id, g.lieAt), jobOf(plans[id][g.lieAt]), workerProof(id, g.lieAt)
            );
        } else if (g.lie <= Lie.LinkPrevious) {
            _challengeChain(id, round, g);
        } else {
            _challengeLine(id, round, g);
        }
        vm.stopPrank();
        games[id].caught = true;
        did("lie caught");
    }

    function _challengeChain(uint256 id, Round memory round, Game memory g) private {
        SettlementRecord[] memory records = settlementOf(id).records;
        RecordProof memory proof = Ledgers.prove(records, g.lieAt);
        SettlementRecord[] memory linked = settlementOf(id).records;
        Ledgers.link(linked);
        uint32 previous = linked[g.lieAt].links[g.slot].previous;
        bool first = previous == NO_JOB;
        RecordProof memory earlier = first ? proof : Ledgers.prove(records, previous);
        audit.challengeChain(id, round, proof, g.slot, first, earlier);
    }

    function _challengeLine(uint256 id, Round memory round, Game memory g) private {
        Settlement memory s = settlementOf(id);
        bool paying = g.lie == Lie.DebitLine || g.lie == Lie.ExtraDebit;
        Line[] memory lines = paying ? s.debits : s.credits;
        uint32 job = g.lie == Lie.MissingCredit ? g.lieAt : lines[g.slot].lastJob;
        address account = g.lie == Lie.MissingCredit ? _missing(s, g.lieAt) : lines[g.slot].account;
        // An index that the round does not have needs no record.
        RecordProof memory proof = Ledgers.prove(s.records, job < s.records.length ? job : 0);
        audit.challengeLine(id, round, lines, paying, account, proof);
    }

    /// @dev The operator of the record that earned something and has no line.
    function _missing(Settlement memory s, uint32 job) private pure returns (address account) {
        SettlementRecord memory r = s.records[job];
        for (uint256 slot = 1; slot < r.links.length; ++slot) {
            (account,) = Ledgers.party(r, slot);
            if (r.links[slot].total > 0 && _find(s.credits, account) == s.credits.length) return account;
        }
    }

    function challengeRepeated(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Settled);
        for (uint256 i; i < plans[id].length; ++i) {
            Plan memory p = plans[id][i];
            if (!p.repeated || rounds.jobState(id, i) != Rounds.JobState.Standing) continue;
            SettlementRecord memory r = settlementOf(id).records[i];
            if (r.outcome != VERDICT_ACCEPT || audit.punished(keccak256(abi.encode(id, i)))) continue;
            Job memory job = jobOf(p);
            uint256[2] memory ids = [uint256(p.former), id];
            Round[2] memory both = [at(p.former), at(id)];
            RecordProof[2] memory records = [proveRecord(p.former, p.formerIndex), proveRecord(id, i)];
            vm.prank(challenger);
            audit.challengeDuplicate(ids, both, records, [job, job]);
            return did("repeated job caught");
        }
    }

    // --- what schedulers must show ---

    function ask(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Settled);
        if (id == 0 || asked.length > 4) return;
        // Hidden records have no other remedy.
        bool hidden = games[id].lie == Lie.Hidden;
        Inquiry.Matter matter = hidden || chance(70) ? Inquiry.Matter.Record : Inquiry.Matter(1 + roll(2));
        askFor(id, matter, uint32(roll(plans[id].length)));
    }

    function askFor(uint256 id, Inquiry.Matter matter, uint32 index) internal {
        Round memory round = focus(id);
        uint64 deadline = uint64(vm.getBlockNumber() + params.openingDeadlineBlocks);
        vm.prank(challenger);
        uint256 demandId = inquiry.demand(id, round, matter, index);
        asked.push(Asked(demandId, Inquiry.Demand(id, matter, index, deadline, challenger)));
        owedByCourts += params.disputeBond;
        did("asked");
    }

    function answerOrNot(uint256 seed) external action(seed) {
        if (asked.length == 0) return;
        uint256 i = roll(asked.length);
        Inquiry.Demand memory d = asked[i].demand;
        if (vm.getBlockNumber() > d.deadline || chance(20)) return punishSilence(i);
        Game memory g = games[d.roundId];
        bool shown = g.lie != Lie.Hidden && (g.lie > Lie.Outcome || g.lie == Lie.None || g.lieAt != d.index);
        if (d.matter != Inquiry.Matter.Record || !shown) return;
        Round memory round = focus(d.roundId);
        inquiry.answerRecord(
            asked[i].id, d, round, proveRecord(d.roundId, d.index), _grounds(d.roundId, d.index)
        );
        _endAsked(i);
        did("answered");
    }

    function punishSilence(uint256 i) internal {
        Inquiry.Demand memory d = asked[i].demand;
        passBlock(d.deadline);
        inquiry.slashSilent(asked[i].id, d, focus(d.roundId));
        if (d.matter == Inquiry.Matter.Record) games[d.roundId].caught = true;
        _endAsked(i);
        did("silence punished");
    }

    function _endAsked(uint256 i) private {
        owedByCourts -= params.disputeBond;
        asked[i] = asked[asked.length - 1];
        asked.pop();
    }

    function _grounds(uint256 id, uint256 index) private view returns (Inquiry.Grounds memory g) {
        Plan memory p = plans[id][index];
        g.job = jobOf(p);
        g.jobSignature = signJob(g.job, CLIENT_KEY + p.client);
        g.worker = workerProof(id, index);
        g.verifiers = new CommitmentProof[](p.verifiers);
        g.verdicts = new Verdict[](p.verifiers);
        g.verdictSignatures = new bytes[](p.verifiers);
        for (uint256 v; v < p.verifiers; ++v) {
            g.verifiers[v] = verifierProof(id, index, v);
            uint256 operator = operatorOf(p, ROLE_VERIFIER, v);
            g.verdicts[v] =
                Verdict(g.worker.commitment.jobId, uint8(p.verdicts >> (8 * v)), 0, 0, operators[operator]);
            g.verdictSignatures[v] = _signVerdict(g.verdicts[v], operator);
        }
    }

    function _signVerdict(Verdict memory v, uint256 operator) private view returns (bytes memory) {
        bytes32 hash = libraries.verdictHash(v);
        return sign(MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), hash), operatorKey(operator));
    }

    // --- what operators must show ---

    function demand(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Committed);
        if (id == 0 || demanded.length > 4) return;
        uint256 index = roll(plans[id].length);
        bool ofVerifier = games[id].stage >= Stage.Verified && plans[id][index].verifiers > 0 && chance(50);
        CommitmentProof memory p = ofVerifier ? verifierProof(id, index, 0) : workerProof(id, index);
        Job memory job = jobOf(plans[id][index]);
        Round memory round = at(id);
        uint64 deadline = uint64(vm.getBlockNumber() + params.openingDeadlineBlocks);
        vm.prank(challenger);
        uint256 demandId = tribunal.demandOpening(id, round, p, job, 0, 1);
        demanded.push();
        Demanded storage d = demanded[demanded.length - 1];
        d.id = demandId;
        d.demand = Tribunal.Demand(id, p.leafIndex, 0, 1, deadline, challenger, p.commitment);
        owedByCourts += params.disputeBond;
        did("demanded");
    }

    function openOrNot(uint256 seed) external action(seed) {
        if (demanded.length == 0) return;
        uint256 i = roll(demanded.length);
        Tribunal.Demand memory d = demanded[i].demand;
        if (vm.getBlockNumber() > d.deadline || chance(20)) return punishWithheld(i);
        Round memory round = focus(d.roundId);
        Transcripts.Transcript memory t = transcriptOf(_kindOf(d), d.commitment.role);
        tribunal.answerOpening(demanded[i].id, d, round, t.parts(), t.open(0, 1));
        _endDemanded(i);
        did("opened");
    }

    function punishWithheld(uint256 i) internal {
        Tribunal.Demand memory d = demanded[i].demand;
        passBlock(d.deadline);
        tribunal.slashWithheld(demanded[i].id, d, focus(d.roundId));
        _endDemanded(i);
        did("withheld");
    }

    function _endDemanded(uint256 i) private {
        owedByCourts -= params.disputeBond;
        demanded[i] = demanded[demanded.length - 1];
        demanded.pop();
    }

    /// @dev By the job of the demanded commitment.
    function _kindOf(Tribunal.Demand memory d) private view returns (Kind) {
        uint256 index = d.leafIndex;
        if (d.commitment.role == ROLE_WORKER) return plans[d.roundId][index].kind;
        for (uint256 i;; ++i) {
            Plan memory p = plans[d.roundId][i];
            if (index < p.verifiers) return p.kind;
            index -= p.verifiers;
        }
        revert("no such verifier");
    }

    // --- fraud ---

    function proveFraud(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Committed);
        for (uint256 i; i < plans[id].length; ++i) {
            Plan memory p = plans[id][i];
            if (p.kind != Kind.Fraudulent || rounds.jobState(id, i) != Rounds.JobState.Standing) continue;
            Transcripts.Transcript memory t = transcriptOf(p.kind, ROLE_WORKER);
            Tribunal.TokenFraud memory f;
            f.worker = workerProof(id, i);
            f.job = jobOf(p);
            f.finalRow = t.open(1, 1);
            f.claimedToken = t.tokens[2];
            f.tokenProof = t.tokenProof(2);
            (f.claimed, f.better) = (Transcripts.weights(f.claimedToken), Transcripts.weights(3));
            Round memory round = at(id);
            vm.prank(challenger);
            tribunal.proveTokenFraud(id, round, f);
            return did("fraud proven");
        }
    }

    function proveInvalid(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Committed);
        for (uint256 i; i < plans[id].length; ++i) {
            Plan memory p = plans[id][i];
            if (p.kind != Kind.Invalid || rounds.jobState(id, i) != Rounds.JobState.Standing) continue;
            CommitmentProof memory proof = workerProof(id, i);
            Round memory round = at(id);
            vm.prank(challenger);
            tribunal.proveInvalidRow(id, round, proof, transcriptOf(p.kind, ROLE_WORKER).open(0, 1));
            return did("invalid row proven");
        }
    }

    function equivocate(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Committed);
        if (id == 0 || !chance(20)) return;
        Plan memory p = plans[id][roll(plans[id].length)];
        uint256 operator = roll(OPERATORS);
        Job memory job = jobOf(p);
        Verdict memory a = Verdict(rounds.jobId(job), VERDICT_ACCEPT, 0, 0, operators[operator]);
        Verdict memory b = Verdict(a.jobId, VERDICT_REJECT, 0, 0, operators[operator]);
        bytes32 offence = keccak256(abi.encode(a));
        if (_equivocated[offence]) return;
        _equivocated[offence] = true;
        bytes memory signature = _signVerdict(a, operator);
        bytes memory other = _signVerdict(b, operator);
        vm.prank(challenger);
        tribunal.proveEquivocation(job, a, signature, b, other);
        did("two verdicts");
    }
}
