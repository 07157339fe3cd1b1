// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Rounds} from "../../src/Rounds.sol";
import {
    Line,
    NO_JOB,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    SCHEDULER_POOL,
    SettlementRecord,
    VERDICT_ACCEPT,
    VERDICT_REJECT
} from "../../src/Types.sol";
import {HandlerMoney} from "./HandlerMoney.sol";
import {Ledgers} from "./Ledgers.sol";
import {Trees} from "./Trees.sol";

/// @notice Rounds, several open at once, each moved on by one step per call. Half of the settlements lie.
abstract contract HandlerRounds is HandlerMoney {
    uint64 private _nonce = 1000;

    // --- commit ---

    function beginRound(uint256 seed) external action(seed) {
        params = parameters.current();
        scheduler = schedulers[roll(SCHEDULERS)];
        if (openRounds.length == MAX_OPEN || parameters.paused()) return;
        if (staking.activeStake(SCHEDULER_POOL, scheduler) < params.minStake) return;
        uint256 id = rounds.roundCount() + 1;
        bytes32[] memory leaves = new bytes32[](1 + roll(4));
        for (uint256 i; i < leaves.length; ++i) {
            plans[id].push(_plan());
            leaves[i] = leafFor(plans[id][i], ROLE_WORKER, 0);
        }
        workerLeaves[id] = leaves;
        commitRound(Trees.root(leaves), uint32(leaves.length));
        openRounds.push(id);
        did("committed");
    }

    function _plan() private returns (Plan memory p) {
        if (chance(15)) {
            p = _repeated();
            if (p.repeated) return p;
        }
        p.nonce = _nonce++;
        p.client = uint8(roll(CLIENTS));
        p.worker = uint8(roll(OPERATORS));
        p.verifiers = uint8(chance(10) ? 0 : 1 + roll(2));
        for (uint256 i; i < p.verifiers; ++i) {
            p.verdicts |= uint16((chance(75) ? VERDICT_ACCEPT : 1 + roll(3)) << (8 * i));
        }
        p.kind = chance(50) ? Kind.Honest : Kind(1 + roll(3));
        p.price = uint96(someOf(escrowTotal(clients[p.client], scheduler) / 100));
    }

    /// @dev A job that was paid in an earlier round, to be paid again.
    function _repeated() private returns (Plan memory p) {
        uint256 former = 1 + roll(rounds.roundCount() + 1);
        if (plans[former].length == 0 || at(former).scheduler != scheduler) return p;
        if (games[former].stage < Stage.Settled || games[former].lie == Lie.Hidden) return p;
        if (games[former].stage == Stage.Closed && at(former).finalBlock == 0) return p; // abandoned
        uint256 index = roll(plans[former].length);
        if (settlementOf(former).records[index].outcome != VERDICT_ACCEPT) return p;
        if (plans[former][index].repeated) return p;
        p = plans[former][index];
        (p.repeated, p.former, p.formerIndex) = (true, uint32(former), uint32(index));
    }

    // --- step ---

    function step(uint256 seed) external action(seed) {
        if (openRounds.length == 0) return;
        uint256 id = openRounds[roll(openRounds.length)];
        Round memory round = focus(id);
        Stage stage = games[id].stage;
        if (stage == Stage.Settled) finish(id, false);
        else if (_isGivenUp(id, round, stage)) did("abandoned");
        else if (_isRequeued(id, round, stage)) did("requeued");
        else if (stage == Stage.Committed) _verify(id);
        else _settle(id, round);
    }

    /// @dev A round that cannot be settled in time any more costs its scheduler.
    function _isGivenUp(uint256 id, Round memory round, Stage stage) private returns (bool) {
        uint256 soonest = vm.getBlockNumber();
        uint256 seed = stage == Stage.Committed ? round.verifierBlock : round.positionBlock;
        if (soonest <= seed) soonest = seed + 1;
        if (soonest <= round.settleBy) return false;
        passBlock(round.settleBy);
        vm.prank(challenger);
        audit.slashAbandoned(id, round);
        _close(id);
        return true;
    }

    function _isRequeued(uint256 id, Round memory round, Stage stage) private returns (bool) {
        bool due = randomness.expired(stage == Stage.Committed ? round.verifierBlock : round.positionBlock);
        if (due) requeueRound(id);
        return due;
    }

    function _verify(uint256 id) private {
        bytes32[] memory leaves = new bytes32[](2 * plans[id].length);
        uint256 count;
        for (uint256 i; i < plans[id].length; ++i) {
            Plan memory p = plans[id][i];
            for (uint256 v; v < p.verifiers; ++v) {
                leaves[count++] = leafFor(p, ROLE_VERIFIER, v);
            }
        }
        assembly ("memory-safe") {
            mstore(leaves, count)
        }
        verifierLeaves[id] = leaves;
        verifyRound(id, count == 0 ? bytes32(0) : Trees.root(leaves), uint32(count));
        games[id].stage = Stage.Verified;
        did("verified");
    }

    // --- settle ---

    function _settle(uint256 id, Round memory round) private {
        Settlement memory s;
        s.records = new SettlementRecord[](plans[id].length);
        bool repeats;
        for (uint256 i; i < s.records.length; ++i) {
            s.records[i] = recordOf(plans[id][i]);
            repeats = repeats || plans[id][i].repeated;
        }
        Game memory g = games[id];
        g.lieAt = uint32(roll(s.records.length));
        // One fault per round, so that each is blamed on what it is.
        g.lie = repeats || chance(50) ? Lie.None : Lie(1 + roll(uint256(type(Lie).max)));
        uint128 extra = uint128(1 + (chance(50) ? 0 : roll(1 ether)));
        _lieInRecord(g, s.records[g.lieAt], plans[id][g.lieAt], extra);
        Ledgers.link(s.records);
        (s.debits, s.credits) = (Ledgers.debits(s.records), Ledgers.credits(s.records));
        _lieInLinks(g, s.records[g.lieAt]);
        _lieInLines(g, s, extra);
        if (!_isCovered(s, round.scheduler)) return;
        bytes32 root = g.lie == Lie.Hidden ? keccak256("hidden") : Ledgers.root(s.records);
        settleRound(id, root, s.debits, s.credits);
        for (uint256 i; i < s.debits.length; ++i) {
            escrowed[s.debits[i].account][round.scheduler] -= s.debits[i].amount;
            g.locked += s.debits[i].amount;
        }
        locked += g.locked;
        g.stage = Stage.Settled;
        games[id] = g;
        keepSettlement(id, s);
        did(g.lie == Lie.None ? "settled honestly" : "settled with a lie");
    }

    function _lieInRecord(Game memory g, SettlementRecord memory r, Plan memory p, uint128 extra)
        private
        view
    {
        if (g.lie == Lie.Fee) {
            r.workerFee += extra;
        } else if (g.lie == Lie.Worker) {
            r.worker = operators[(p.worker + 3) % OPERATORS]; // no verifier of the job
        } else if (g.lie == Lie.Outcome) {
            r.outcome = r.outcome == VERDICT_ACCEPT ? VERDICT_REJECT : VERDICT_ACCEPT;
            setFees(r, p.price);
        }
    }

    function _lieInLinks(Game memory g, SettlementRecord memory r) private {
        g.slot = uint32(roll(r.links.length));
        if (g.lie == Lie.LinkTotal) {
            r.links[g.slot].total += 1;
        } else if (g.lie == Lie.LinkPrevious) {
            bool first = r.links[g.slot].previous == NO_JOB;
            r.links[g.slot].previous = first ? g.lieAt : NO_JOB;
        }
    }

    /// @dev A lie for which these lines leave no room is not told.
    function _lieInLines(Game memory g, Settlement memory s, uint128 extra) private {
        if (g.lie < Lie.DebitLine || g.lie == Lie.Hidden) return;
        bool paying = g.lie == Lie.DebitLine || g.lie == Lie.ExtraDebit;
        Line[] memory lines = paying ? s.debits : s.credits;
        if (g.lie == Lie.ExtraDebit) {
            address victim = clients[roll(CLIENTS)];
            if (_find(lines, victim) < lines.length) {
                g.lie = Lie.None;
                return;
            }
            uint32 lastJob = uint32(roll(2 * s.records.length));
            (s.debits, g.slot) = _insert(lines, Line(victim, lastJob, extra));
            return;
        }
        if (lines.length == 0) {
            g.lie = Lie.None;
            return;
        }
        g.slot = uint32(roll(lines.length));
        if (g.lie == Lie.MissingCredit) (s.credits, g.lieAt) = _remove(lines, g.slot);
        else lines[g.slot].amount += extra;
    }

    function _find(Line[] memory lines, address account) internal pure returns (uint256 i) {
        while (i < lines.length && lines[i].account != account) ++i;
    }

    function _insert(Line[] memory lines, Line memory line)
        private
        pure
        returns (Line[] memory more, uint32 slot)
    {
        more = new Line[](lines.length + 1);
        while (slot < lines.length && lines[slot].account < line.account) ++slot;
        for (uint256 i; i < more.length; ++i) {
            more[i] = i < slot ? lines[i] : i == slot ? line : lines[i - 1];
        }
    }

    /// @dev Also the removed account's last job, whose record shows what it earned.
    function _remove(Line[] memory lines, uint256 slot)
        private
        pure
        returns (Line[] memory less, uint32 job)
    {
        job = lines[slot].lastJob;
        less = new Line[](lines.length - 1);
        for (uint256 i; i < less.length; ++i) {
            less[i] = lines[i < slot ? i : i + 1];
        }
    }

    /// @dev Can the clients pay, and is there no more earned than paid?
    function _isCovered(Settlement memory s, address scheduler_) private view returns (bool) {
        uint256 paid;
        uint256 earned;
        for (uint256 i; i < s.debits.length; ++i) {
            if (s.debits[i].amount > escrowed[s.debits[i].account][scheduler_]) return false;
            paid += s.debits[i].amount;
        }
        for (uint256 i; i < s.credits.length; ++i) {
            earned += s.credits[i].amount;
        }
        return earned <= paid;
    }

    // --- the end of a settled round ---

    /// @dev One step towards the end: refund, deduct, or pay. With `last`, it waits for the window and pays all lines.
    function finish(uint256 id, bool last) internal {
        Round memory round = focus(id);
        Rounds.Pending memory p = rounds.pending(id);
        if (p.refuted) return _refund(id, round, p.cursor, last);
        if (p.voidsOpen > 0) return _deduct(id, round);
        if (last || chance(25)) passBlock(round.finalBlock);
        if (vm.getBlockNumber() > round.finalBlock && p.holds == 0) _pay(id, round, p.cursor, last);
    }

    function _refund(uint256 id, Round memory round, uint256 from, bool last) private {
        Line[] memory debits = settlementOf(id).debits;
        uint256 upTo = last || from == debits.length ? debits.length : from + 1 + roll(debits.length - from);
        rounds.refundRound(id, round, debits, upTo);
        for (uint256 i = from; i < upTo; ++i) {
            address who = debits[i].account;
            _giveBack(id, who, debits[i].amount - refunded[id][who]);
        }
        if (upTo < debits.length) return;
        assertEq(games[id].locked, 0, "all is refunded");
        _close(id);
        did("refunded");
    }

    /// @dev A record that is hidden cannot be deducted; only a demand ends such a round.
    function _deduct(uint256 id, Round memory round) private {
        if (games[id].lie == Lie.Hidden) return;
        uint32 index;
        while (rounds.jobState(id, index) != Rounds.JobState.Voided) ++index;
        Settlement memory s = settlementOf(id);
        rounds.deductJob(id, round, Ledgers.prove(s.records, index), s.debits, s.credits);
        if (rounds.pending(id).refuted) {
            assertNotEq(uint8(games[id].lie), uint8(Lie.None), "honest lines cover their records");
            return did("refuted by a deduction");
        }
        _giveBack(id, s.records[index].client, feesOf(s.records[index]));
        did("deducted");
    }

    function _giveBack(uint256 id, address who, uint256 amount) private {
        refunded[id][who] += amount;
        escrowed[who][scheduler] += amount;
        games[id].locked -= amount;
        locked -= amount;
    }

    function _pay(uint256 id, Round memory round, uint256 from, bool last) private {
        Settlement memory s = settlementOf(id);
        uint256 upTo = s.credits.length;
        if (!last && from < upTo) upTo = from + 1 + roll(upTo - from);
        uint256[] memory amounts = _expected(id, s, from, upTo);
        uint256[] memory held = _held(s.credits, from, upTo);
        uint256 share = rounds.balances(scheduler);
        rounds.payRound(id, round, s.credits, upTo);
        uint256[] memory holds = _held(s.credits, from, upTo);
        for (uint256 i; i < amounts.length; ++i) {
            assertEq(holds[i] - held[i], amounts[i], "an operator gets its line less void jobs");
            games[id].locked -= amounts[i];
            locked -= amounts[i];
        }
        if (upTo < s.credits.length) return did("paid in part");
        assertEq(rounds.balances(scheduler) - share, games[id].locked, "the scheduler gets the rest");
        locked -= games[id].locked;
        games[id].locked = 0;
        for (uint256 i; i < CLIENTS; ++i) {
            _checkPaid(id, s, clients[i]);
        }
        _close(id);
        did("paid");
    }

    function _held(Line[] memory credits, uint256 from, uint256 upTo)
        private
        view
        returns (uint256[] memory held)
    {
        held = new uint256[](upTo - from);
        for (uint256 i; i < held.length; ++i) {
            held[i] = rounds.balances(credits[from + i].account);
        }
    }

    function _expected(uint256 id, Settlement memory s, uint256 from, uint256 upTo)
        private
        view
        returns (uint256[] memory amounts)
    {
        amounts = new uint256[](upTo - from);
        for (uint256 i; i < amounts.length; ++i) {
            Line memory line = s.credits[from + i];
            amounts[i] = line.amount - _deductedOf(id, s, line.account);
        }
    }

    function _deductedOf(uint256 id, Settlement memory s, address operator)
        private
        view
        returns (uint256 sum)
    {
        for (uint256 i; i < s.records.length; ++i) {
            if (rounds.jobState(id, i) != Rounds.JobState.Deducted) continue;
            SettlementRecord memory r = s.records[i];
            if (r.worker == operator) sum += r.workerFee;
            for (uint256 v; v < r.verifiers.length; ++v) {
                if (r.verifiers[v] == operator) sum += r.verifierFee;
            }
        }
    }

    /// @dev A client pays for the jobs that it signed, once, unless nobody challenged the lie.
    function _checkPaid(uint256 id, Settlement memory s, address who) private {
        uint256 line = _find(s.debits, who);
        uint256 paid = line < s.debits.length ? s.debits[line].amount - refunded[id][who] : 0;
        uint256 due;
        bool repeats;
        for (uint256 i; i < s.records.length; ++i) {
            if (rounds.jobState(id, i) == Rounds.JobState.Deducted) continue;
            Plan memory p = plans[id][i];
            repeats = repeats || p.repeated;
            if (clients[p.client] == who && !p.repeated) due += feesOf(recordOf(p));
        }
        Game memory g = games[id];
        if ((g.lie == Lie.None && !repeats) || g.caught) assertEq(paid, due, "a client pays what it signed");
        else if (paid > due) stolen += paid - due;
    }

    function _close(uint256 id) private {
        games[id].stage = Stage.Closed;
        forget(id);
    }
}
