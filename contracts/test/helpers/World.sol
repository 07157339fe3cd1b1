// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Audit} from "../../src/Audit.sol";
import {Court} from "../../src/Court.sol";
import {Inquiry} from "../../src/Inquiry.sol";
import {Parameters} from "../../src/Parameters.sol";
import {Randomness} from "../../src/Randomness.sol";
import {Rounds} from "../../src/Rounds.sol";
import {ISlashReceiver, Staking} from "../../src/Staking.sol";
import {TestToken} from "../../src/TestToken.sol";
import {Tribunal} from "../../src/Tribunal.sol";
import {
    Commitment,
    CommitmentProof,
    Job,
    Line,
    Params,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    SettlementRecord,
    VERDICT_ACCEPT
} from "../../src/Types.sol";
import {DevParams} from "./DevParams.sol";
import {Headers} from "./Headers.sol";
import {Ledgers} from "./Ledgers.sol";
import {Libraries} from "./Libraries.sol";
import {Transcripts} from "./Transcripts.sol";
import {Trees} from "./Trees.sol";

/// @notice Deployed contracts with the devnet parameters, the toy model, six operators, a scheduler and a client.
abstract contract World is Test {
    using Transcripts for Transcripts.Transcript;

    uint256 internal constant STAKE = 1000 ether;
    uint256 internal constant OPERATORS = 6;
    uint256 internal constant CLIENT_KEY = 0xC1;
    uint128 internal constant INPUT_PRICE = 3 ether;
    uint128 internal constant OUTPUT_PRICE = 5 ether;
    uint64 internal constant MARGIN_Q24 = 1 << 22; // 0.25
    uint64 internal constant TOLERANCE_Q40 = 1 << 30; // relative difference 2^-10
    bytes internal constant VRF_KEY = hex"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

    Params internal params = DevParams.load();
    Libraries internal libraries = Libraries(deployCode("Libraries.sol:Libraries"));
    TestToken internal token;
    Staking internal staking;
    Randomness internal randomness;
    Rounds internal rounds;
    Parameters internal parameters;
    Court internal court;
    Tribunal internal tribunal;
    Audit internal audit;
    Inquiry internal inquiry;
    bytes32 internal modelId;
    address internal client = vm.addr(CLIENT_KEY);
    address internal scheduler = makeAddr("scheduler");
    address internal guardian = makeAddr("guardian");
    address internal challenger = makeAddr("challenger");
    address internal worker = vm.addr(operatorKey(0));
    address internal verifier = vm.addr(operatorKey(1));
    mapping(uint256 roundId => Round) private _known;

    function setUp() public virtual {
        vm.chainId(31337);
        vm.roll(100);
        deploy();
        modelId = staking.registerModel(Transcripts.spec(MARGIN_Q24, TOLERANCE_Q40));
        for (uint256 i; i < OPERATORS; ++i) {
            address operator = vm.addr(operatorKey(i));
            fund(operator, STAKE, address(staking));
            vm.prank(operator);
            staking.registerOperator(modelId, STAKE, "http://operator");
        }
        fund(scheduler, STAKE, address(staking));
        vm.prank(scheduler);
        staking.registerScheduler(STAKE, "http://scheduler", VRF_KEY);
        fund(client, 1000 ether, address(rounds));
        vm.prank(client);
        rounds.depositEscrow(scheduler, 1000 ether);
        fund(challenger, 10 * params.disputeBond, address(rounds));
        vm.roll(block.number + params.epochBlocks);
    }

    /// @dev From the artifacts: `new` would compile every contract again into every test.
    function deploy() internal {
        token = TestToken(deployCode("TestToken.sol:TestToken"));
        parameters =
            Parameters(deployCode("Parameters.sol:Parameters", abi.encode(address(this), guardian, params)));
        staking = Staking(deployCode("Staking.sol:Staking", abi.encode(token, parameters)));
        randomness = Randomness(deployCode("Randomness.sol:Randomness"));
        rounds = Rounds(deployCode("Rounds.sol:Rounds", abi.encode(token, staking, randomness, parameters)));
        bytes memory arguments = abi.encode(staking, rounds);
        tribunal = Tribunal(deployCode("Tribunal.sol:Tribunal", arguments));
        audit = Audit(deployCode("Audit.sol:Audit", arguments));
        inquiry = Inquiry(deployCode("Inquiry.sol:Inquiry", arguments));
        court = Court(deployCode("Court.sol:Court", arguments));
        address[] memory courts = new address[](4);
        (courts[0], courts[1]) = (address(court), address(tribunal));
        (courts[2], courts[3]) = (address(audit), address(inquiry));
        staking.wire(ISlashReceiver(address(rounds)), courts);
        rounds.setCourts(courts);
    }

    function operatorKey(uint256 index) internal pure returns (uint256) {
        return 0xA0 + index;
    }

    function fund(address account, uint256 amount, address spender) internal {
        token.mint(account, amount);
        vm.prank(account);
        token.approve(spender, type(uint256).max);
    }

    // --- jobs ---

    function newJob(uint256 nonce) internal view returns (Job memory job) {
        job.client = client;
        job.scheduler = scheduler;
        job.modelId = modelId;
        job.promptTokens = Transcripts.PROMPT;
        job.maxOutputTokens = Transcripts.OUTPUT;
        job.topPPpm = 1_000_000;
        job.seed = 7;
        (job.inputPrice, job.outputPrice) = (INPUT_PRICE, OUTPUT_PRICE);
        job.verifiers = 1;
        job.deadline = uint64(block.timestamp + 1000);
        job.nonce = nonce;
    }

    function signJob(Job memory job, uint256 key) internal view returns (bytes memory) {
        return sign(rounds.jobId(job), key);
    }

    function sign(bytes32 digest, uint256 key) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    /// @notice What the operator `index` signs for this transcript; the proof is that of a round of one job.
    function commit(Job memory job, Transcripts.Transcript memory t, uint8 role, uint256 index)
        internal
        view
        returns (CommitmentProof memory p)
    {
        bytes32 jobId = rounds.jobId(job);
        address operator = vm.addr(operatorKey(index));
        p.commitment = Commitment({
            jobId: jobId,
            role: role,
            attempt: 0,
            jobRoot: t.jobRoot(jobId, operator, modelId),
            promptTokens: Transcripts.PROMPT,
            outputTokens: Transcripts.OUTPUT,
            finishReason: 1,
            operator: operator
        });
        p.parts = t.parts();
        p.signature = sign(digestOf(p.commitment), operatorKey(index));
    }

    function digestOf(Commitment memory c) internal view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), libraries.commitmentHash(c));
    }

    function leafOf(CommitmentProof memory p) internal view returns (bytes32) {
        return Trees.roundLeaf(digestOf(p.commitment), p.commitment.operator);
    }

    function newRecord(Job memory job, address worker_) internal view returns (SettlementRecord memory r) {
        r.jobId = rounds.jobId(job);
        r.client = job.client;
        r.worker = worker_;
        (r.promptTokens, r.outputTokens) = (Transcripts.PROMPT, Transcripts.OUTPUT);
        r.outcome = VERDICT_ACCEPT;
        r.workerFee = 2 * INPUT_PRICE + 2 * OUTPUT_PRICE;
        r.verifierFee = uint128(r.workerFee * params.verifierFeeBps / 10_000);
        r.schedulerFee = uint128(r.workerFee * params.schedulerFeeBps / 10_000);
        r.verifiers = new address[](1);
        r.verifiers[0] = verifier;
        r.verdicts = new uint8[](1);
        r.verdicts[0] = VERDICT_ACCEPT;
    }

    function feesOf(SettlementRecord memory r) internal pure returns (uint128) {
        return uint128(r.workerFee + r.verifierFee * r.verifiers.length + r.schedulerFee);
    }

    // --- rounds ---

    /// @notice Commit, and with a verifier's commitment also verify, a round of one job.
    function openRound(CommitmentProof memory ofWorker, CommitmentProof memory ofVerifier)
        internal
        returns (uint256 roundId)
    {
        roundId = openRound(ofWorker);
        verifyRound(roundId, leafOf(ofVerifier), 1);
    }

    function openRound(CommitmentProof memory ofWorker) internal returns (uint256 roundId) {
        return commitRound(leafOf(ofWorker), 1);
    }

    function commitRound(bytes32 root, uint32 jobs) internal returns (uint256 roundId) {
        vm.prank(scheduler);
        roundId = rounds.commitRound(modelId, root, jobs);
        Round storage r = _known[roundId];
        (r.scheduler, r.modelId, r.commitRoot, r.jobs) = (scheduler, modelId, root, jobs);
        (r.paramsVersion, r.epoch) = (parameters.version(), staking.epoch());
        r.committedAt = uint64(vm.getBlockTimestamp());
        r.settleBy = uint64(vm.getBlockNumber() + params.settleBlocks);
        r.verifierBlock = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
    }

    function verifyRound(uint256 roundId, bytes32 root, uint32 count) internal {
        Round storage r = _known[roundId];
        bytes memory header = reach(r.verifierBlock);
        vm.prank(scheduler);
        rounds.commitVerifications(roundId, r, root, count, header);
        (r.verifierSeed, r.verificationRoot, r.verifications) = (seedOf(r.verifierBlock), root, count);
        r.positionBlock = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
    }

    /// @notice Ask for the round's pending seed again.
    function requeueRound(uint256 roundId) internal {
        Round storage r = _known[roundId];
        rounds.requeue(roundId, r);
        uint64 target = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
        if (r.positionBlock == 0) r.verifierBlock = target;
        else r.positionBlock = target;
    }

    /// @notice Settle a round of one job by its record, which gets its links here.
    function settleRound(uint256 roundId, SettlementRecord memory record) internal {
        SettlementRecord[] memory records = new SettlementRecord[](1);
        records[0] = record;
        settleRound(roundId, records);
    }

    function settleRound(uint256 roundId, SettlementRecord[] memory records) internal {
        Ledgers.link(records);
        settleRound(roundId, Ledgers.root(records), Ledgers.debits(records), Ledgers.credits(records));
    }

    function settleRound(uint256 roundId, bytes32 root, Line[] memory debits, Line[] memory credits)
        internal
    {
        Round storage r = _known[roundId];
        bytes memory header = reach(r.positionBlock);
        vm.prank(scheduler);
        rounds.settleRound(roundId, r, root, debits, credits, header);
        (r.positionSeed, r.settlementRoot) = (seedOf(r.positionBlock), root);
        (r.debitsHash, r.creditsHash) = (keccak256(abi.encode(debits)), keccak256(abi.encode(credits)));
        for (uint256 i; i < debits.length; ++i) {
            r.total += debits[i].amount;
        }
        r.finalBlock = uint64(vm.getBlockNumber() + params.challengeWindowBlocks);
    }

    /// @notice The round as the contract holds it.
    function at(uint256 roundId) internal view returns (Round memory) {
        return _known[roundId];
    }

    function passWindow(uint256 roundId) internal {
        vm.roll(uint256(_known[roundId].finalBlock) + 1);
    }

    /// @notice The honest pair: worker (operator 0) and verifier (operator 1) commit the same transcript.
    function honestRound(Job memory job) internal returns (uint256 roundId) {
        Transcripts.Transcript memory t = Transcripts.honest();
        return openRound(commit(job, t, ROLE_WORKER, 0), commit(job, t, ROLE_VERIFIER, 1));
    }

    // --- randomness ---

    /// @notice Go past a block, and give its header to the chain.
    function reach(uint256 target) internal returns (bytes memory header) {
        if (vm.getBlockNumber() <= target) vm.roll(target + 1);
        header = Headers.build(target, seedOf(target));
        vm.setBlockhash(target, keccak256(header));
    }

    function seedOf(uint256 blockNumber) internal pure returns (bytes32) {
        return keccak256(abi.encode("mix", blockNumber));
    }

    function none() internal pure returns (bytes32[] memory) {
        return new bytes32[](0);
    }
}
